"""Cached rows as the kernels see them: a plain matrix, or a pool of pages with a table.

Rows are float32, or bfloat16 held as `ml_dtypes.bfloat16` or as its bits in uint16. The last axis must
be contiguous; rows and pages may lie any distance apart, so that a latent of 512 and its 64 shared key
channels can be two views of one cache of 576 columns. Rows of uint8 are the eight-bit layouts of `packed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..arrays import Array, KernelError
from . import packed

Kind = Literal["float32", "bfloat16", "key8", "latent8"]


def is_bfloat16(array: Array) -> bool:
    return array.dtype == np.uint16 or array.dtype.name == "bfloat16"


def widen(array: Array) -> Array:
    """float32 values of float32 or bfloat16 data (exact)."""
    if array.dtype == np.float32:
        return array
    bits = array if array.dtype == np.uint16 else array.view(np.uint16)
    return (bits.astype(np.uint32) << 16).view(np.float32)


@dataclass(frozen=True)
class Rows:
    """`length` rows of `width` values; row i lies in page `table[i // page_size]` where there is a table."""

    data: Array
    table: Array | None
    length: int
    kind: Kind

    @property
    def width(self) -> int:
        if self.kind == "latent8":
            return packed.LATENT + packed.SHARED
        return int(self.data.shape[-1]) - (packed.SCALE_BYTES if self.kind == "key8" else 0)

    @property
    def page_size(self) -> int:
        return int(self.data.shape[1]) if self.table is not None else max(1, self.length)

    def block(self, start: int, stop: int) -> Array:
        """Rows start..stop as float32 [stop - start, width]."""
        if self.table is None:
            return self._widen(self.data[start:stop])
        return self.gather(np.arange(start, stop))

    def gather(self, positions: Array) -> Array:
        """The rows at `positions` (i64[n], every one inside) as float32 [n, width]."""
        if self.table is None:
            return self._widen(self.data[positions])
        size = self.data.shape[1]
        return self._widen(self.data[self.table[positions // size], positions % size])

    def _widen(self, data: Array) -> Array:
        if self.kind == "key8":
            return packed.unpack_keys(data)
        if self.kind == "latent8":
            return np.concatenate(packed.unpack_latents(data), axis=-1)
        return widen(data)


def rows(data: Array, table: Array | None, length: int | None, name: str, eight: Kind | None = None) -> Rows:
    """Checks one set of rows; `eight` is what uint8 stands for. Raises KernelError for what does not fit."""
    kind: Kind = "float32"
    if is_bfloat16(data):
        kind = "bfloat16"
    elif eight is not None and data.dtype == np.uint8:
        kind = eight
        if data.shape[-1:] < (packed.SCALE_BYTES + 1,) or (
            kind == "latent8" and data.shape[-1] != packed.LATENT_BYTES
        ):
            raise KernelError(f"{name}: these are no rows of eight bits: {data.shape}")
    elif data.dtype != np.float32:
        raise KernelError(f"{name}: rows are float32 or bfloat16 (or its bits in uint16), not {data.dtype}")
    if data.ndim != (2 if table is None else 3):
        wanted = "[rows, width]" if table is None else "[pages, page_size, width] with a table"
        raise KernelError(f"{name}: expected {wanted}, got shape {data.shape}")
    if data.size and data.shape[-1] > 1 and data.strides[-1] != data.itemsize:
        raise KernelError(f"{name}: the values of a row must lie side by side")
    if table is None:
        held = int(data.shape[0])
    else:
        if table.ndim != 1 or table.dtype.kind not in "iu":
            raise KernelError(
                f"{name}: the page table is one row of integers, got {table.dtype}{table.shape}"
            )
        if table.size and not (int(table.min()) >= 0 and int(table.max()) < data.shape[0]):
            raise KernelError(f"{name}: the page table names pages outside 0..{data.shape[0] - 1}")
        held = int(table.shape[0]) * int(data.shape[1])
    if length is None:
        length = held
    if not 0 <= length <= held:
        raise KernelError(f"{name}: {length} rows were asked for, {held} are there")
    return Rows(data, table, length, kind)
