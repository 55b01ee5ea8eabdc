"""The sparse attention kernels of the C++ library: addresses and strides handed over, nothing checked."""

from __future__ import annotations

import ctypes

import numpy as np

from ..arrays import Array
from ..native.library import pointer
from .rows import Rows

_KINDS = ("float32", "bfloat16", "key8", "latent8")
"""In the order of `RowKind` in cache.h."""


class _Rows(ctypes.Structure):
    """`Rows` of cache.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("row_stride", ctypes.c_int64),
        ("page_stride", ctypes.c_int64),
        ("page_size", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("kind", ctypes.c_int32),
        ("width", ctypes.c_int32),
    )


class _Held:
    """A `_Rows` together with the arrays that it points into."""

    def __init__(self, rows: Rows) -> None:
        data, paged = rows.data, rows.table is not None
        self.table = None if rows.table is None else np.ascontiguousarray(rows.table, np.int32)
        self.data = data
        self.view = _Rows(
            data=data.ctypes.data,
            table=None if self.table is None else pointer(self.table),
            row_stride=data.strides[-2],
            page_stride=data.strides[0] if paged else 0,
            page_size=rows.page_size,
            length=rows.length,
            kind=_KINDS.index(rows.kind),
            width=rows.width,
        )

    @property
    def address(self) -> int:
        return ctypes.addressof(self.view)


def _i64(*values: int) -> tuple[ctypes.c_int64, ...]:
    return tuple(ctypes.c_int64(value) for value in values)


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(pointer(array))


def _done(failed: int) -> None:
    if failed:
        raise MemoryError("the attention kernels found no memory to work in")


def indexer_scores(library: ctypes.CDLL, q: Array, keys: Rows, w: Array, first_position: int) -> Array:
    out = np.empty((q.shape[0], keys.length), np.float32)
    held = _Held(keys)
    _done(
        library.whimbrel_scores(
            ctypes.c_void_p(held.address),
            _address(q),
            _address(w),
            *_i64(q.shape[0], q.shape[1], first_position),
            _address(out),
        )
    )
    return out


def top_k(library: ctypes.CDLL, scores: Array, k: int) -> Array:
    found = np.empty((scores.shape[0], k), np.int64)
    _done(
        library.whimbrel_top_k(_address(scores), *_i64(scores.shape[0], scores.shape[1], k), _address(found))
    )
    return found


def attention(
    library: ctypes.CDLL,
    q_latent: Array,
    q_pe: Array,
    latents: Rows,
    pe: Rows | None,
    indices: Array | None,
    first_position: int,
    scale: float,
) -> Array:
    """Sparse where `indices` (i64 [T, k], contiguous) are given, else dense."""
    tokens, heads, width = q_latent.shape
    out = np.empty((tokens, heads, width), np.float32)
    held, shared = _Held(latents), None if pe is None else _Held(pe)
    _done(
        library.whimbrel_attention(
            ctypes.c_void_p(held.address),
            None if shared is None else ctypes.c_void_p(shared.address),
            _address(q_latent),
            _address(q_pe),
            None if indices is None else _address(indices),
            *_i64(
                0 if indices is None else indices.shape[1],
                tokens,
                heads,
                width,
                q_pe.shape[2],
                first_position,
            ),
            ctypes.c_float(scale),
            _address(out),
        )
    )
    return out
