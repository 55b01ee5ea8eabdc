"""Reading one safetensors file: memory-mapped, lazy, and suspicious of what it reads.

Layout: eight bytes of header length (little-endian), that many bytes of JSON, then the data. Each entry of
the header gives a dtype, a shape and a half-open byte range in the data.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ...sandbox.base.errors import ModelError

Array = np.ndarray[Any, np.dtype[Any]]

MAX_HEADER = 100_000_000
"""Bytes of header accepted: what the format's own library accepts."""

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies: `offset` counts from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class SafetensorsFile:
    """One file, mapped into memory. Tensors are views of the mapping (copies where the file is not aligned).

    Raises:
        ModelError: the file is truncated, or its header is not what the format says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                self.entries = _read_header(path, file.read(8), file, size)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
        self._descriptor: int | None = None

    def read(self, name: str) -> Array:
        """The tensor `name`, read-only, as stored."""
        entry = self.entries[name]
        return view(memoryview(self._map), entry.offset, entry)

    def will_need(self, entry: Entry) -> None:
        """Tell the system that one tensor will be read soon; advice that it does not take is no error."""
        start = entry.offset - entry.offset % mmap.PAGESIZE
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._map.madvise(mmap.MADV_WILLNEED, start, entry.offset + entry.nbytes - start)

    def descriptor(self) -> int:
        """A file descriptor for `os.pread`, opened once and closed with the file."""
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor; the mapping goes when the last view of it goes."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.close()


def view(buffer: memoryview, offset: int, entry: Entry) -> Array:
    """The tensor of `entry` whose bytes start at `offset` of `buffer`."""
    dtype = DTYPES[entry.dtype]
    raw = np.frombuffer(buffer, dtype=np.uint8, count=entry.nbytes, offset=offset)
    if raw.ctypes.data % dtype.itemsize:
        raw = raw.copy()
    return raw.view(dtype).reshape(entry.shape)


def _read_header(path: Path, first: bytes, file: Any, size: int) -> dict[str, Entry]:
    if len(first) < 8:
        raise ModelError(f"{path} is truncated: it has {size} bytes", hint="download it again")
    (length,) = struct.unpack("<Q", first)
    if length > MAX_HEADER:
        raise ModelError(f"{path} is no safetensors file: its header would be {length} bytes long")
    if 8 + length > size:
        raise ModelError(
            f"{path} is truncated: its header needs {8 + length} bytes and the file has {size}",
            hint="download it again",
        )
    try:
        header = json.loads(file.read(length), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} has a broken header: {error}") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} has a broken header: it is no JSON object")
    entries = [
        _entry(path, name, found, 8 + length) for name, found in header.items() if name != "__metadata__"
    ]
    last, before = 8 + length, ""
    for entry in sorted(entries, key=lambda e: (e.offset, e.nbytes)):
        if entry.nbytes and entry.offset < last:
            raise ModelError(f"{path} has a broken header: {before} and {entry.name} overlap")
        if entry.offset + entry.nbytes > size:
            raise ModelError(
                f"{path} is truncated: {entry.name} ends at byte {entry.offset + entry.nbytes} "
                f"and the file has {size}",
                hint="download it again",
            )
        if entry.nbytes:
            last, before = entry.offset + entry.nbytes, entry.name
    return {entry.name: entry for entry in entries}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the name {name[:200]} occurs twice")
            seen.add(name)
    return found


def _entry(path: Path, name: str, found: Any, start: int) -> Entry:
    match found:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise ModelError(f"{path} has a broken header: {name[:200]} lacks a dtype, a shape or its place")
    if dtype not in DTYPES:
        raise ModelError(f"{path}: {name} has the dtype {dtype[:40]}, which is not supported")
    if not all(type(n) is int and n >= 0 for n in shape) or not 0 <= begin <= end:
        raise ModelError(f"{path} has a broken header: the shape or place of {name[:200]} makes no sense")
    nbytes = prod(shape) * DTYPES[dtype].itemsize
    if nbytes != end - begin:
        raise ModelError(
            f"{path} has a broken header: {name} of shape {shape} and dtype {dtype} takes {nbytes} bytes "
            f"and has {end - begin}"
        )
    return Entry(name, dtype, tuple(shape), start + begin, nbytes)
