"""The delta attention kernels of the C++ library; nothing is checked here."""

from __future__ import annotations

import ctypes

import numpy as np

from ..arrays import Array
from ..native.library import pointer

MOST_KEYS = 512
"""Key channels that the prefill kernel has room for."""


def _addresses(*arrays: Array) -> tuple[ctypes.c_void_p, ...]:
    return tuple(ctypes.c_void_p(pointer(array)) for array in arrays)


def _i64(*values: int) -> tuple[ctypes.c_int64, ...]:
    return tuple(ctypes.c_int64(value) for value in values)


def _done(failed: int) -> None:
    if failed:
        raise MemoryError("the delta attention kernels found no memory to work in")


def decode_step(library: ctypes.CDLL, state: Array, inputs: tuple[Array, ...]) -> Array:
    out = np.empty(inputs[2].shape, np.float32)
    _done(library.whimbrel_kda_decode(*_addresses(state, *inputs, out), *_i64(*state.shape)))
    return out


def prefill(
    library: ctypes.CDLL, state: Array, inputs: tuple[Array, ...], chunk_size: int, group: int
) -> Array:
    """`group` tokens at a time go through the state (1: the plain recurrence)."""
    out = np.empty(inputs[2].shape, np.float32)
    sizes = _i64(inputs[2].shape[0], *state.shape, chunk_size, group)
    _done(library.whimbrel_kda_prefill(*_addresses(state, *inputs, out), *sizes))
    return out
