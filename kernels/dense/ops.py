"""The public face of the dense products: checks the arrays, then the native library or numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..arrays import Array, KernelError, as_f32, bf16_bits, check_dtype, check_shape
from ..native.library import library
from . import native, vectorised
from .reference import GROUP

Precision = Literal["auto", "bf16", "f32"]
_PRECISIONS = get_args(Precision)


@dataclass(frozen=True)
class Int8Weight:
    """A matrix in eight bits: value[r, c] = codes[r, c] * scales[r, c // 64]."""

    codes: Array
    """i8[R, C]."""
    scales: Array
    """f32[R, ceil(C / 64)]."""

    def __post_init__(self) -> None:
        check_dtype("codes", self.codes, "int8")
        check_dtype("scales", self.scales, "float32")
        check_shape("codes", self.codes, None, None)
        check_shape("scales", self.scales, self.codes.shape[0], -(-self.codes.shape[1] // GROUP))

    @property
    def shape(self) -> tuple[int, int]:
        """(R, C)."""
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads."""
        return self.codes.nbytes + self.scales.nbytes

    def dequantise(self) -> Array:
        """f32[R, C]."""
        return vectorised.dequantise_int8(self.codes, self.scales)


def matmul(x: Array, w: Array, *, precision: Precision = "auto") -> Array:
    """x times the transpose of w.

    Args:
        x: floating point [T, C].
        w: [R, C] as float32, or bfloat16 (ml_dtypes, or its bits as uint16).
        precision: how far the activations may be rounded beside bfloat16 weights: "bf16", "f32" not at all,
            "auto" whichever is fastest for T (bf16 for many tokens only). float32 weights: never.

    Returns:
        f32[T, R].

    Raises:
        KernelError: arrays that do not fit each other, or an unknown precision.
    """
    _check_precision(precision)
    if w.dtype != np.uint16:
        check_dtype("w", w, "float32", "bfloat16", "uint16")
    if w.ndim != 2:
        check_shape("w", w, None, None)
    x = as_f32("x", x, None, w.shape[1])
    loaded = library()
    if w.dtype == np.float32:
        # numpy's threads wait for each other in busy loops, which stalls where others use the processors too.
        if loaded is None or not x.size or not w.size:
            return x @ w.T
        return native.matmul_f32(loaded, x, np.ascontiguousarray(w))
    bits = bf16_bits("w", w)
    if loaded is None or not x.size or not bits.size:
        return vectorised.matmul_bf16(x, bits)
    return native.matmul_bf16(loaded, x, bits, precision != "f32")


def _check_precision(precision: str) -> None:
    if precision not in _PRECISIONS:
        raise KernelError(f"precision is {precision!r}; one of {', '.join(_PRECISIONS)} is needed")


def quantise_int8(w: Array) -> Int8Weight:
    """Rounds a matrix [R, C] (float32, or bfloat16 as in `matmul`) to eight bits, 64 columns to a scale."""
    check_dtype("w", w, "float32", "float64", "float16", "bfloat16", "uint16")
    w = _bits_as_f32(w) if w.dtype == np.uint16 else as_f32("w", w, None, None)
    if not np.isfinite(w).all():
        raise KernelError("the weights hold values that are not finite; eight bits have no code for them")
    return Int8Weight(*vectorised.quantise_int8(w))


def _bits_as_f32(w: Array) -> Array:
    check_shape("w", w, None, None)
    return (w.astype(np.uint32) << 16).view(np.float32)


def matmul_int8(x: Array, w: Int8Weight, *, precision: Precision = "auto") -> Array:
    """x [T, C] times the transpose of an eight-bit matrix -> f32[T, R]; `precision` as in `matmul`.

    Where activations are rounded to bfloat16, so is code * scale (1e-3, a fifth of what eight bits cost).
    """
    _check_precision(precision)
    x = as_f32("x", x, None, w.shape[1])
    loaded = library()
    if loaded is None or not x.size or not w.codes.size:
        return vectorised.matmul_int8(x, w.codes, w.scales)
    codes, scales = np.ascontiguousarray(w.codes), np.ascontiguousarray(w.scales)
    return native.matmul_int8(loaded, x, codes, scales, precision != "f32")


def short_conv(x: Array, weight: Array, history: Array) -> tuple[Array, Array]:
    """Depthwise causal convolution of width four, then SiLU.

    Args:
        x: floating point [T, C].
        weight: [C, 4]; the last tap belongs to the current token.
        history: [3, C], the inputs of the three tokens before, oldest first; zero at the start.

    Returns:
        f32[T, C], and the new history f32[3, C] (an array of its own).

    Raises:
        KernelError: arrays that do not fit each other.
    """
    x = as_f32("x", x, None, None)
    weight = as_f32("weight", weight, x.shape[1], 4)
    history = as_f32("history", history, 3, x.shape[1])
    loaded = library()
    if loaded is None or not x.size:
        return vectorised.short_conv(x, weight, history)
    return native.short_conv(loaded, x, weight, history)
