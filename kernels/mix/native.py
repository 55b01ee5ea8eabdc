"""The residual mix and the RMS norm of the C++ library; nothing is checked here."""

from __future__ import annotations

import ctypes

import numpy as np

from ..arrays import Array
from ..native.library import pointer


def _addresses(*arrays: Array) -> tuple[ctypes.c_void_p, ...]:
    return tuple(ctypes.c_void_p(pointer(array)) for array in arrays)


def _i64(*values: int) -> tuple[ctypes.c_int64, ...]:
    return tuple(ctypes.c_int64(value) for value in values)


def attn_res_mix(library: ctypes.CDLL, candidates: Array, query: Array, eps: float) -> Array:
    out = np.empty(candidates.shape[1:], np.float32)
    arguments = (*_addresses(candidates, query, out), *_i64(*candidates.shape), ctypes.c_float(eps))
    if library.whimbrel_mix(*arguments):
        raise MemoryError("the residual mix found no memory to work in")
    return out


def rms_norm(library: ctypes.CDLL, x: Array, w: Array, eps: float) -> Array:
    out = np.empty(x.shape, np.float32)
    rows = x.size // max(1, x.shape[-1])
    library.whimbrel_rms_norm(*_addresses(x, w, out), *_i64(rows, x.shape[-1]), ctypes.c_float(eps))
    return out
