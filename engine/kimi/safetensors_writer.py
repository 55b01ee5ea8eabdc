"""Writing safetensors files: streamed tensor by tensor, complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from ...sandbox.base.errors import ConfigError
from ..cluster.machines import shown_bytes
from .safetensors import DTYPES, Array

_PARTIAL: Final = ".partial"


@dataclass(frozen=True, slots=True)
class Planned:
    """One tensor of a file to be written; dtype in the format's spelling (BF16, F32, U8, ...)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * DTYPES[self.dtype].itemsize


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(ConfigError):
    """No room for a file; nothing half-written is left."""


@contextlib.contextmanager
def writing(folder: Path) -> Generator[None]:
    """Tells in one line why a folder cannot be written to.

    Raises:
        DiskFull: no room.
        ConfigError: any other reason that the system gives.
    """
    try:
        yield
    except OSError as error:
        what = f"cannot write {error.filename or folder}: {error.strerror or error}"
        if error.errno in _NO_ROOM:
            raise DiskFull(what, hint="make room and run the same command again") from error
        raise ConfigError(what, hint="name a folder that can be written to") from error


def header_of(tensors: Sequence[Planned]) -> bytes:
    """The file's start: eight bytes of length, then JSON padded to a multiple of eight."""
    offset = 0
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for tensor in tensors:
        end = offset + tensor.nbytes
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def file_bytes(tensors: Sequence[Planned]) -> int:
    return len(header_of(tensors)) + sum(tensor.nbytes for tensor in tensors)


def write_file(path: Path, tensors: Sequence[Planned], data: Callable[[Planned], Array]) -> None:
    """Writes one file, asking for one tensor after the other, and puts it in its place when it is whole.

    Args:
        data: the tensor's array, of exactly the dtype and shape planned.

    Raises:
        DiskFull: the disk or the quota has no room; the partial file is removed.
        ValueError: an array that is not what was planned.
    """
    partial = path.with_name(path.name + _PARTIAL)
    try:
        # A leftover of a killed run is overwritten; a link that somebody put there is not followed.
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(header_of(tensors))
            for tensor in tensors:
                array = data(tensor)
                if array.dtype != DTYPES[tensor.dtype] or array.shape != tensor.shape:
                    raise ValueError(
                        f"{tensor.name}: {array.dtype}{array.shape} is not {tensor.dtype}{tensor.shape}"
                    )
                file.write(_raw(array))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise DiskFull(
                f"no room on the disk for {path} ({shown_bytes(file_bytes(tensors))})",
                hint="make room and run the same command again; what is complete is kept",
            ) from error
        raise


def index_of(shards: Iterable[tuple[str, Sequence[Planned]]]) -> bytes:
    """The content of ``model.safetensors.index.json``."""
    where: dict[str, str] = {}
    total = 0
    for name, tensors in shards:
        where |= {tensor.name: name for tensor in tensors}
        total += sum(tensor.nbytes for tensor in tensors)
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    return (json.dumps(content, indent=1) + "\n").encode()


def shard_name(number: int, count: int) -> str:
    """As the releases name them: ``model-00001-of-000096.safetensors``."""
    return f"model-{number:05d}-of-{count:06d}.safetensors"


def _raw(array: Array) -> Any:
    """The bytes as the file wants them, without a copy where the array lies like that already."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
