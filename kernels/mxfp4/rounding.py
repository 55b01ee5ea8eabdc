"""Rounding through the C++ library, with the error it costs; numpy where there is no library."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from ..arrays import Array, KernelError
from ..native.library import library, pointer
from . import vectorised
from .reference import BLOCK


class Rounded(NamedTuple):
    """A matrix in MXFP4 and how far it is from what it was.

    packed u8[R, C/2], scales u8[R, C/32]; `squared_error` is the sum over all values.
    """

    packed: Array
    scales: Array
    squared_error: float
    largest_error: float


def rounded(w: Array) -> Rounded:
    """w f32[R, C], C-contiguous, C a multiple of 32.

    Raises:
        KernelError: a value that is not finite.
    """
    loaded = library()
    if loaded is None:
        packed, scales = vectorised.quantise(w)
        difference = np.abs(vectorised.dequantise(packed, scales) - w)
        squared = float(np.sum(np.square(difference, dtype=np.float64)))
        return Rounded(packed, scales, squared, float(np.max(difference, initial=0.0)))
    rows, columns = w.shape
    packed = np.empty((rows, columns // 2), np.uint8)
    scales = np.empty((rows, columns // BLOCK), np.uint8)
    error = np.zeros(2, np.float64)
    function = loaded.whimbrel_mxfp4_quantise
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 3]
    if function(pointer(w), scales.size, pointer(packed), pointer(scales), pointer(error)):
        raise KernelError("the weights hold values that are not finite; MXFP4 has no code for them")
    return Rounded(packed, scales, float(error[0]), float(error[1]))
