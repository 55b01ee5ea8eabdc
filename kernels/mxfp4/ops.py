"""The public face of MXFP4: checks the arrays, then the native library or numpy."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..arrays import Array, KernelError, as_f32, check_dtype, check_shape
from ..native.library import library
from . import native, vectorised
from .reference import BLOCK

Precision = Literal["auto", "int8", "bf16", "f32"]


def quantise(w: Array) -> tuple[Array, Array]:
    """Rounds weights to MXFP4.

    Args:
        w: floating point [R, C], C a multiple of 32.

    Returns:
        packed u8[R, C/2] and scales u8[R, C/32] in the layout of the released checkpoints.

    Raises:
        KernelError: another shape or dtype, or a value that is not finite.
    """
    w = as_f32("w", w, None, None)
    if w.shape[1] % BLOCK:
        raise KernelError(f"w has {w.shape[1]} columns; MXFP4 needs a multiple of {BLOCK}")
    return vectorised.quantise(w)


def dequantise(packed: Array, scales: Array) -> Array:
    """packed u8[R, C/2], scales u8[R, C/32] -> f32[R, C]; exact, not-a-number where a scale is 255."""
    check_weight(packed, scales)
    return vectorised.dequantise(packed, scales)


def matmul(x: Array, packed: Array, scales: Array, *, precision: Precision = "auto") -> Array:
    """x times the transpose of an MXFP4 matrix.

    Args:
        x: floating point [T, C]: one token (mat-vec) or many (mat-mat).
        packed: u8[R, C/2].
        scales: u8[R, C/32].
        precision: how far the *activations* may be rounded (the weights are always taken exactly):
            "int8" with one scale per 32 columns (5.5e-3 relative RMS error), "bf16" (1.7e-3), "f32" not at
            all, "auto" whichever is fastest for T. A version that cannot gain by it rounds less.

    Returns:
        f32[T, R].

    Raises:
        KernelError: arrays that do not fit each other, or an unknown precision.
    """
    if precision not in native.ROUNDINGS:
        raise KernelError(f"precision is {precision!r}; one of {', '.join(native.ROUNDINGS)} is needed")
    check_weight(packed, scales)
    x = as_f32("x", x, None, packed.shape[1] * 2)
    loaded = library()
    if loaded is None or not x.size or not packed.size:
        return vectorised.matmul(x, packed, scales)
    packed, scales = np.ascontiguousarray(packed), np.ascontiguousarray(scales)
    return native.matmul(loaded, x, packed, scales, precision)


def check_weight(packed: Array, scales: Array) -> None:
    """Raises KernelError unless the two arrays form one MXFP4 matrix."""
    if packed.dtype == np.uint8 and scales.dtype == np.uint8 and packed.ndim == 2:
        blocks, rest = divmod(packed.shape[1], BLOCK // 2)
        if not rest and scales.shape == (packed.shape[0], blocks):
            return
    check_dtype("packed", packed, "uint8")
    check_dtype("scales", scales, "uint8")
    check_shape("packed", packed, None, None)
    columns = packed.shape[1] * 2
    if columns % BLOCK:
        raise KernelError(f"packed holds {columns} columns; MXFP4 needs a multiple of {BLOCK}")
    check_shape("scales", scales, packed.shape[0], columns // BLOCK)
