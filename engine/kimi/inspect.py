"""What a checkpoint folder holds, and what it lacks: looked at without loading any weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from ...sandbox.base.errors import WhimbrelError
from ..cluster.licence import Licence, licence_of
from .chat.format import ChatFormat
from .checkpoint import GOLDEN, Checkpoint
from .config import KimiConfig, load_config
from .inventory import active_parameters, is_packed, text_tensors, vision_tensors

_OPTIONAL = (".k_norm.bias",)


@dataclass
class Inspection:
    """Everything found. ``missing`` holds one line for each thing without which the model does not run."""

    folder: Path
    config: KimiConfig | None = None
    active: int = 0
    parameters: int = 0
    tensors: int = 0
    files: int = 0
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict[str, int])
    packed: bool = False
    tokens: int | None = None
    format: str = ""
    licence: Licence | None = None
    golden: bool = False
    missing: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def inspect_checkpoint(folder: Path, chat_template: Path | None = None) -> Inspection:
    """Looks at a folder; whatever is wrong with a part of it is a line of ``missing``, not an error.

    ``chat_template``: a file that is to be used in place of the checkpoint's own.
    """
    found = Inspection(folder, golden=(folder / GOLDEN).is_file())
    try:
        found.config = load_config(folder)
        found.active = active_parameters(found.config)
        found.packed = is_packed(found.config)
        found.notes += found.config.warnings
    except WhimbrelError as error:
        found.missing.append(error.one_line())
    _weights(found)
    _talk(found, chat_template)
    try:
        found.licence = licence_of(folder)
    except WhimbrelError as error:
        found.notes.append(error.one_line())
    return found


def _weights(found: Inspection) -> None:
    try:
        checkpoint = Checkpoint(found.folder)
    except WhimbrelError as error:
        found.missing.append(error.one_line())
        return
    sizes: Counter[str] = Counter()
    shapes: dict[str, tuple[int, ...]] = {}
    for file in checkpoint.files:
        for name, entry in file.entries.items():
            sizes[entry.dtype] += entry.nbytes
            shapes[name] = entry.shape
            if name.endswith(".weight_packed"):
                found.parameters += 2 * prod(entry.shape)
            elif not name.endswith(".weight_scale"):
                found.parameters += prod(entry.shape)
    found.files, found.tensors, found.bytes_by_dtype = len(checkpoint.files), len(shapes), dict(sizes)
    checkpoint.close()
    if found.config is not None:
        _compare(found, found.config, shapes)


def _compare(found: Inspection, config: KimiConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    wanted: dict[str, int] = {}
    for tensor in (*text_tensors(config), *vision_tensors(config)):
        for number in range(tensor.copies):
            name = tensor.name.replace("{e}", str(number)) if tensor.copies > 1 else tensor.name
            packed = tensor.part == "routed experts" and f"{name}_packed" in shapes
            wanted[f"{name}_packed" if packed else name] = prod(tensor.shape) // (2 if packed else 1)
            if packed:
                wanted[f"{name}_scale"] = prod(tensor.shape) // 32
    absent = [name for name in wanted if name not in shapes and _other_spelling(name) not in shapes]
    wrong = [name for name, size in wanted.items() if name in shapes and prod(shapes[name]) != size]
    known = {*wanted, *(_other_spelling(name) for name in wanted)}
    extra = [name for name in shapes if name not in known and not name.endswith(_OPTIONAL)]
    found.missing += _listed("tensors that config.json asks for are missing", absent)
    found.missing += _listed("tensors have another size than config.json says", wrong)
    found.notes += _listed("tensors are there that config.json does not ask for", extra)


def _other_spelling(name: str) -> str:
    """The dense layer's feed-forward part goes by two names."""
    if ".mlp." in name:
        return name.replace(".mlp.", ".block_sparse_moe.")
    return name.replace(".block_sparse_moe.", ".mlp.")


def _talk(found: Inspection, chat_template: Path | None) -> None:
    try:
        vocab = found.config.vocab_size if found.config is not None else None
        chat = ChatFormat.load(found.folder, vocab_size=vocab, chat_template=chat_template)
    except WhimbrelError as error:
        found.missing.append(error.one_line())
        return
    found.tokens = chat.tokenizer.vocab_size
    found.format = "message language of K3" if chat.think_close_ids else "the checkpoint's own template"
    found.notes += chat.notices


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return [f"{len(names):,} {what}: {', '.join(names[:3])}{more}"]
