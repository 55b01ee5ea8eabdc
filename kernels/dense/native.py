"""Dense products and the short convolution through the C++ library; arrays are checked already."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from ..arrays import Array
from ..native.library import pointer

_I64, _P, _I32 = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int


@cache
def _functions(library: ctypes.CDLL) -> ctypes.CDLL:
    library.whimbrel_f32_product.argtypes = [_P, _I64, _I64, _P, _I64, _P]
    library.whimbrel_bf16_product.argtypes = [_P, _I64, _I64, _P, _I64, _P, _I32]
    library.whimbrel_int8_product.argtypes = [_P, _P, _I64, _I64, _P, _I64, _P, _I32]
    conv = library.whimbrel_short_conv
    conv.argtypes, conv.restype = [_P] * 5 + [_I64] * 2, None
    return library


def matmul_f32(library: ctypes.CDLL, x: Array, w: Array) -> Array:
    """f32[T, C], f32[R, C] -> f32[T, R]."""
    out = np.empty((x.shape[0], w.shape[0]), np.float32)
    _functions(library).whimbrel_f32_product(pointer(w), *w.shape, pointer(x), x.shape[0], pointer(out))
    return out


def matmul_bf16(library: ctypes.CDLL, x: Array, bits: Array, rounded: bool) -> Array:
    """f32[T, C], u16[R, C] -> f32[T, R]; `rounded`: the activations may become bf16."""
    out = np.empty((x.shape[0], bits.shape[0]), np.float32)
    product = _functions(library).whimbrel_bf16_product
    if product(pointer(bits), *bits.shape, pointer(x), x.shape[0], pointer(out), rounded):
        raise MemoryError(f"no memory for the product of {x.shape[0]} tokens")
    return out


def matmul_int8(library: ctypes.CDLL, x: Array, codes: Array, scales: Array, rounded: bool) -> Array:
    """f32[T, C], i8[R, C], f32[R, ceil(C/64)] -> f32[T, R]; `rounded` as in `matmul_bf16`."""
    out = np.empty((x.shape[0], codes.shape[0]), np.float32)
    product = _functions(library).whimbrel_int8_product
    if product(pointer(codes), pointer(scales), *codes.shape, pointer(x), x.shape[0], pointer(out), rounded):
        raise MemoryError(f"no memory for the product of {x.shape[0]} tokens")
    return out


def short_conv(library: ctypes.CDLL, x: Array, weight: Array, history: Array) -> tuple[Array, Array]:
    """f32[T, C], f32[C, 4], f32[3, C] -> f32[T, C], f32[3, C]."""
    out, last = np.empty_like(x), np.empty_like(history)
    _functions(library).whimbrel_short_conv(
        pointer(x), pointer(weight), pointer(history), pointer(out), pointer(last), *x.shape
    )
    return out, last
