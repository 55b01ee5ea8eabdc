"""MXFP4 through the C++ library; arrays are checked and contiguous already."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from ..arrays import Array
from ..native.library import pointer

ROUNDINGS = {"auto": 0, "int8": 1, "bf16": 2, "f32": 3}
_I64, _P, _I32, _F32 = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int, ctypes.c_float


@cache
def _functions(library: ctypes.CDLL) -> ctypes.CDLL:
    product = library.whimbrel_mxfp4_product
    product.argtypes = [_P, _P, _I64, _I64, _P, _I64, _P, _I32]
    experts = library.whimbrel_mxfp4_experts
    experts.argtypes = [_P, _P, *[_I64] * 5, *[_P] * 5, _I32, _F32, _F32, _I32]
    return library


def matmul(library: ctypes.CDLL, x: Array, packed: Array, scales: Array, precision: str) -> Array:
    """f32[T, C] -> f32[T, R]."""
    out = np.empty((x.shape[0], packed.shape[0]), np.float32)
    failed = _functions(library).whimbrel_mxfp4_product(
        pointer(packed),
        pointer(scales),
        packed.shape[0],
        x.shape[1],
        pointer(x),
        x.shape[0],
        pointer(out),
        ROUNDINGS[precision],
    )
    if failed:
        raise MemoryError(f"no memory for the product of {x.shape[0]} tokens")
    return out


def experts(
    library: ctypes.CDLL,
    x: Array,
    ids: Array,
    weights: Array,
    addresses: Array,
    inner: int,
    activation: tuple[int, float, float],
    precision: str,
) -> Array:
    """One layer of experts.

    Args:
        x: f32[T, C].
        ids: [T, k], each the index of an expert in `addresses`, negative for none.
        weights: f32[T, k].
        addresses: uintp[E, 6], for each expert packed and scales of w1, then w2, then w3.
        inner: rows of w1.
        activation: 0 SwiGLU or 1 SiTU, beta, linear beta (0: none).

    Returns:
        f32[T, C].
    """
    tokens, chosen = ids.shape
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[np.count_nonzero(flat < 0) :]
    first = np.zeros(len(addresses) + 1, np.int64)
    np.cumsum(np.bincount(flat[order], minlength=len(addresses)), out=first[1:])
    token = np.ascontiguousarray(order // chosen, dtype=np.int32)
    slot = np.full(tokens * chosen, -1, np.int32)
    slot[order] = np.arange(order.size, dtype=np.int32)
    out = np.empty_like(x)
    failed = _functions(library).whimbrel_mxfp4_experts(
        pointer(x),
        pointer(out),
        tokens,
        x.shape[1],
        inner,
        chosen,
        len(addresses),
        pointer(first),
        pointer(token),
        pointer(slot),
        pointer(weights),
        pointer(addresses),
        *activation,
        ROUNDINGS[precision],
    )
    if failed:
        raise MemoryError(f"no memory for {order.size} rows of experts")
    return out
