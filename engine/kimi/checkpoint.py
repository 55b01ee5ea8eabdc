"""A checkpoint folder: its shards, its names, and every tensor checked before it is handed out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...sandbox.base.errors import ModelError
from ...sandbox.base.files import read_regular
from .safetensors import Array, Entry, SafetensorsFile

INDEX = "model.safetensors.index.json"
GOLDEN = "golden.safetensors"
FLOATS = ("F32", "BF16", "F16", "F64")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5,6})\.safetensors$")


class Checkpoint:
    """All tensors of one folder by name; names of the text model are given without their prefix.

    Raises:
        ModelError: no weights, a shard missing or broken, a name twice, an index that does not fit the files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed, names = _files_of(folder)
        self.files = [SafetensorsFile(folder / name) for name in listed]
        self._where: dict[str, SafetensorsFile] = {}
        for file in self.files:
            for name in file.entries:
                if name in self._where:
                    raise ModelError(f"{name} is in {self._where[name].path.name} and in {file.path.name}")
                self._where[name] = file
        for name, shard in names.items():
            if name not in self._where or self._where[name].path.name != shard:
                raise ModelError(
                    f"{folder / INDEX} says that {name[:200]} is in {shard}, and it is not",
                    hint="the index and the shards are of different downloads; download the checkpoint again",
                )
        wrapped = any(name.startswith("language_model.") for name in self._where)
        self.prefix = "language_model." if wrapped else ""
        self._used: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the text model has a tensor of this name."""
        return self.prefix + name in self._where

    def first(self, *names: str) -> str:
        """The first of several spellings that is there; the first of all when none is (errors name it)."""
        return next((name for name in names if self.has(name)), names[0])

    def place(self, name: str) -> tuple[SafetensorsFile, Entry]:
        """The file and place of a tensor, which then counts as used.

        Raises:
            ModelError: it is not there.
        """
        full = self.prefix + name
        file = self._where.get(full)
        if file is None:
            raise ModelError(
                f"{self.folder}: the tensor {full} is missing",
                hint="config.json is of other weights, or the download is incomplete",
            )
        self._used.add(full)
        return file, file.entries[full]

    def has_outside(self, name: str) -> bool:
        """Whether there is a tensor of this whole name."""
        return name in self._where

    def outside(self, name: str) -> tuple[SafetensorsFile, Entry]:
        """The file and place of a tensor that is not the text model's, by its whole name.

        Raises:
            ModelError: it is not there.
        """
        file = self._where.get(name)
        if file is None:
            raise ModelError(f"{self.folder}: the tensor {name} is missing", hint="download it again")
        return file, file.entries[name]

    def typed(
        self, name: str, shape: tuple[int, ...], dtypes: Iterable[str]
    ) -> tuple[SafetensorsFile, Entry]:
        """As `place`, with shape and dtype checked.

        Raises:
            ModelError: missing, of another shape or of another dtype.
        """
        file, entry = self.place(name)
        if entry.shape != shape:
            raise self.wrong(entry, f"the shape {list(entry.shape)}; config.json asks for {list(shape)}")
        if entry.dtype not in dtypes:
            raise self.wrong(entry, f"the dtype {entry.dtype}; {' or '.join(dtypes)} is needed")
        return file, entry

    def wrong(self, entry: Entry, what: str) -> ModelError:
        """An error about one tensor."""
        return ModelError(f"{self.folder}: {entry.name} has {what}")

    def matrix(self, name: str, rows: int, columns: int) -> Array:
        """A floating-point matrix as stored (float32 or bfloat16 views, others widened to float32)."""
        file, entry = self.typed(name, (rows, columns), FLOATS)
        stored = file.read(entry.name)
        return stored if entry.dtype in ("F32", "BF16") else stored.astype(np.float32)

    def packed(self, name: str, rows: int, columns: int) -> tuple[Array, Array]:
        """An MXFP4 matrix: u8[rows, columns/2] and u8[rows, columns/32]; `name` without its ending."""
        if columns % 32:
            _, entry = self.place(f"{name}.weight_packed")
            raise self.wrong(entry, f"{columns} columns by config.json; MXFP4 needs a multiple of 32")
        file, entry = self.typed(f"{name}.weight_packed", (rows, columns // 2), ("U8",))
        other, scale = self.typed(f"{name}.weight_scale", (rows, columns // 32), ("U8",))
        scales = other.read(scale.name)
        check_scales(self.folder, scale.name, scales)
        return file.read(entry.name), scales

    def vector(self, name: str, size: int, *, at_least: bool = False) -> Array:
        """A float32 vector; unit axes are dropped, and entries beyond `size` where `at_least` allows them."""
        file, entry = self.place(name)
        if entry.dtype not in FLOATS:
            raise self.wrong(entry, f"the dtype {entry.dtype}; {' or '.join(FLOATS)} is needed")
        count = prod(entry.shape)
        if count < size or (count > size and not at_least) or max(entry.shape, default=1) != count:
            raise self.wrong(entry, f"the shape {list(entry.shape)}; config.json asks for [{size}]")
        return self._finite(entry, file.read(entry.name).astype(np.float32).reshape(-1)[:size])

    def taps(self, name: str, channels: int, width: int) -> Array:
        """Weights of a depthwise convolution, f32[channels, width]; stored with a unit axis somewhere."""
        file, entry = self.place(name)
        if entry.dtype not in FLOATS:
            raise self.wrong(entry, f"the dtype {entry.dtype}; {' or '.join(FLOATS)} is needed")
        if tuple(n for n in entry.shape if n != 1) != tuple(n for n in (channels, width) if n != 1):
            raise self.wrong(
                entry, f"the shape {list(entry.shape)}; config.json asks for {[channels, 1, width]}"
            )
        return self._finite(entry, file.read(entry.name).astype(np.float32).reshape(channels, width))

    def _finite(self, entry: Entry, values: Array) -> Array:
        """Small tensors are copied anyway, so it costs nothing to look at them."""
        if not np.isfinite(values).all():
            raise ModelError(
                f"{self.folder}: {entry.name} holds a value that is no finite number",
                hint="the file is damaged; download it again",
            )
        return np.ascontiguousarray(values)

    def skip(self, *names: str) -> None:
        """Tensors that may be there and are not needed."""
        self._used.update(self.prefix + name for name in names)

    def unused(self) -> list[str]:
        """Tensors of the file that nothing asked for; those of the vision tower do not count."""
        aside = ("vision_tower.", "mm_projector.")
        return sorted(n for n in self._where if n not in self._used and not n.startswith(aside))

    def close(self) -> None:
        """Close the files; arrays handed out stay valid."""
        for file in self.files:
            file.close()


def check_scales(folder: Path, name: str, scales: Array) -> None:
    """Raises ModelError where a scale byte is 255, the standard's not-a-number."""
    if scales.size and int(scales.max()) == 255:
        row, column = (int(n) for n in np.argwhere(scales == 255)[0])
        raise ModelError(
            f"{folder}: {name} holds a scale that is no number (255) at row {row}, block {column}",
            hint="the file is damaged; download it again",
        )


def _files_of(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The shards' file names, and which tensor the index expects in which."""
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder", hint="give the folder that holds config.json")
    index = folder / INDEX
    if index.exists():
        names = _read_index(index)
        shards = sorted(set(names.values()))
        if missing := [shard for shard in shards if not (folder / shard).is_file()]:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ModelError(f"{folder}: the shard {missing[0]}{more} is missing", hint="download it again")
        return shards, names
    if (folder / "model.safetensors").is_file():
        return ["model.safetensors"], {}
    found = sorted(p.name for p in folder.glob("*.safetensors") if p.name != GOLDEN)
    if not found:
        raise ModelError(
            f"{folder} holds no safetensors file", hint="give the folder that holds the checkpoint"
        )
    numbered = [match for name in found if (match := _SHARD.search(name))]
    if numbered:
        total, have = int(numbered[0][2]), {int(match[1]) for match in numbered}
        if missing := sorted(set(range(1, total + 1)) - have):
            raise ModelError(f"{folder}: shard {missing[0]} of {total} is missing", hint="download it again")
    return found, {}


def _read_index(index: Path) -> dict[str, str]:
    try:
        content: Any = json.loads(read_regular(index))
    except OSError as error:
        raise ModelError(f"{index} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{index} is no JSON: {error}", hint="download it again") from error
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not names:
        raise ModelError(f"{index} has no weight_map", hint="download it again")
    for name, shard in names.items():
        if not isinstance(shard, str) or Path(shard).name != shard or shard in ("", ".", ".."):
            raise ModelError(f"{index}: the place of {name[:200]} is no file name")
    return names
