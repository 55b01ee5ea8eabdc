"""Dense products and the short convolution in numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, bf16_to_f32
from .reference import GROUP

_ROWS_AT_ONCE = 256


def matmul_bf16(x: Array, bits: Array) -> Array:
    """f32[T, C] with bfloat16 bits u16[R, C] -> f32[T, R], a band of rows at a time."""
    out = np.empty((x.shape[0], bits.shape[0]), np.float32)
    for begin in range(0, bits.shape[0], _ROWS_AT_ONCE):
        band = slice(begin, begin + _ROWS_AT_ONCE)
        out[:, band] = x @ bf16_to_f32(bits[band]).T
    return out


def quantise_int8(w: Array) -> tuple[Array, Array]:
    """f32[R, C] -> i8[R, C], f32[R, ceil(C/64)]."""
    rows, columns = w.shape
    groups = -(-columns // GROUP)
    codes = np.empty((rows, columns), np.int8)
    scales = np.empty((rows, groups), np.float32)
    for begin in range(0, rows, _ROWS_AT_ONCE):
        band = np.zeros((min(_ROWS_AT_ONCE, rows - begin), groups * GROUP), np.float32)
        band[:, :columns] = w[begin : begin + _ROWS_AT_ONCE]
        parts = band.reshape(-1, groups, GROUP)
        scale = np.abs(parts).max(axis=2) / np.float32(127)
        divisor = np.where(scale > 0, scale, np.float32(1))[:, :, None]
        rounded = np.clip(np.rint(parts / divisor), -127, 127).astype(np.int8)
        codes[begin : begin + _ROWS_AT_ONCE] = rounded.reshape(band.shape)[:, :columns]
        scales[begin : begin + _ROWS_AT_ONCE] = scale
    return codes, scales


def dequantise_int8(codes: Array, scales: Array) -> Array:
    """i8[R, C], f32[R, ceil(C/64)] -> f32[R, C]."""
    return codes.astype(np.float32) * np.repeat(scales, GROUP, axis=1)[:, : codes.shape[1]]


def matmul_int8(x: Array, codes: Array, scales: Array) -> Array:
    """f32[T, C] -> f32[T, R]."""
    out = np.empty((x.shape[0], codes.shape[0]), np.float32)
    for begin in range(0, codes.shape[0], _ROWS_AT_ONCE):
        band = slice(begin, begin + _ROWS_AT_ONCE)
        out[:, band] = x @ dequantise_int8(codes[band], scales[band]).T
    return out


def short_conv(x: Array, weight: Array, history: Array) -> tuple[Array, Array]:
    """f32[T, C], f32[C, 4], f32[3, C] -> f32[T, C], f32[3, C]."""
    u = np.concatenate([history, x])
    total = weight[:, 0] * u[: x.shape[0]]
    for j in range(1, 4):
        total += weight[:, j] * u[j : j + x.shape[0]]
    with np.errstate(over="ignore"):
        total /= 1 + np.exp(-total)
    return total, u[-3:].copy()
