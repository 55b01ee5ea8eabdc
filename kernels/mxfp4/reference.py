"""MXFP4 in float64: the definition that every other version is measured against.

A code is four bits: the highest is the sign, the other three choose a magnitude (E2M1). Byte j of a row holds
column 2j in its low nibble and column 2j + 1 in its high nibble. A scale byte s (E8M0) belongs to 32
consecutive columns: value = magnitude * 2^(s - 127); 255 is not a number. (OCP Microscaling formats 1.0.)
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array

BLOCK = 32
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def dequantise(packed: Array, scales: Array) -> Array:
    """u8[R, C/2], u8[R, C/32] -> f64[R, C]."""
    rows, half = packed.shape
    codes = np.empty((rows, half * 2), np.uint8)
    codes[:, 0::2] = packed & 15
    codes[:, 1::2] = packed >> 4
    values = np.array(MAGNITUDES)[codes & 7] * np.where(codes & 8, -1.0, 1.0)
    factor = np.exp2(scales.astype(np.float64) - 127)
    factor[scales == 255] = np.nan
    return values * np.repeat(factor, BLOCK, axis=1)


def quantise(w: Array) -> tuple[Array, Array]:
    """[R, C] -> (u8[R, C/2], u8[R, C/32]).

    Of the two scales that fit a block (the largest magnitude lands in 4..8 or in 2..4 units) the one with the
    smaller squared error; of two equally good ones the smaller. Rounding to nearest, ties to the even code.
    """
    rows, columns = w.shape
    packed = np.zeros((rows, columns // 2), np.uint8)
    scales = np.zeros((rows, columns // BLOCK), np.uint8)
    for r in range(rows):
        for b in range(columns // BLOCK):
            block = w[r, b * BLOCK : (b + 1) * BLOCK].astype(np.float64)
            largest = float(np.abs(block).max())
            low = int(np.floor(np.log2(largest))) - 2 if largest > 0 else -127
            best: tuple[float, int, list[int]] | None = None
            for exponent in (low, low + 1):
                exponent = min(max(exponent, -127), 127)
                codes = [_nearest(value * 2.0**-exponent) for value in block]
                back = [MAGNITUDES[c & 7] * (-1 if c & 8 else 1) * 2.0**exponent for c in codes]
                error = float(((np.array(back) - block) ** 2).sum())
                if best is None or error < best[0]:
                    best = (error, exponent, codes)
            assert best is not None
            scales[r, b] = best[1] + 127
            codes = best[2]
            packed[r, b * 16 : (b + 1) * 16] = [codes[2 * i] | codes[2 * i + 1] << 4 for i in range(16)]
    return packed, scales


def _nearest(value: float) -> int:
    distance = [abs(abs(value) - magnitude) for magnitude in MAGNITUDES]
    least = min(distance)
    near = [code for code, d in enumerate(distance) if d == least]
    code = next((c for c in near if c % 2 == 0), near[0])
    return code | 8 if value < 0 and code else code


def matmul(x: Array, packed: Array, scales: Array) -> Array:
    """[T, C] times the transpose of the quantised [R, C] -> f64[T, R]."""
    return x.astype(np.float64) @ dequantise(packed, scales).T
