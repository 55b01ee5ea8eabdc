"""MXFP4 in numpy: the path that serves where the native library was not built, and the quantiser."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, KernelError
from .reference import BLOCK, MAGNITUDES

_VALUES = np.array([*MAGNITUDES, *(-m for m in MAGNITUDES)], np.float32)
_PAIRS = np.stack([_VALUES[np.arange(256) & 15], _VALUES[np.arange(256) >> 4]], axis=1)
"""Both columns of a byte: f32[256, 2]."""
_FACTORS = np.append(np.ldexp(np.float32(1), np.arange(-127, 128).astype(np.int32)), np.float32(np.nan))
_EDGES = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)
"""Midpoints of neighbouring magnitudes; a value on the edge goes to the even code."""
_ROWS_AT_ONCE = 256


def dequantise(packed: Array, scales: Array) -> Array:
    """u8[R, C/2], u8[R, C/32] -> f32[R, C]."""
    rows, blocks = scales.shape
    with np.errstate(invalid="ignore", over="ignore"):
        values = _PAIRS[packed].reshape(rows, blocks, BLOCK) * _FACTORS[scales][:, :, None]
    return values.reshape(rows, blocks * BLOCK)


def matmul(x: Array, packed: Array, scales: Array) -> Array:
    """f32[T, C] -> f32[T, R], a band of rows at a time, so that the weights are never whole in memory."""
    out = np.empty((x.shape[0], packed.shape[0]), np.float32)
    for begin in range(0, packed.shape[0], _ROWS_AT_ONCE):
        band = slice(begin, begin + _ROWS_AT_ONCE)
        with np.errstate(invalid="ignore", over="ignore"):
            out[:, band] = x @ dequantise(packed[band], scales[band]).T
    return out


def quantise(w: Array) -> tuple[Array, Array]:
    """f32[R, C] -> (u8[R, C/2], u8[R, C/32]); see reference.py for the choice of the scale."""
    rows, columns = w.shape
    packed = np.empty((rows, columns // 2), np.uint8)
    scales = np.empty((rows, columns // BLOCK), np.uint8)
    for begin in range(0, rows, _ROWS_AT_ONCE):
        band = slice(begin, begin + _ROWS_AT_ONCE)
        packed[band], scales[band] = _quantise_band(w[band])
    return packed, scales


def _quantise_band(w: Array) -> tuple[Array, Array]:
    rows, columns = w.shape
    blocks = w.reshape(rows, columns // BLOCK, BLOCK)
    largest = np.abs(blocks).max(axis=2)
    if not np.isfinite(largest).all():
        raise KernelError("the weights hold values that are not finite; MXFP4 has no code for them")
    # frexp: largest = m * 2^e with m in [0.5, 1), so floor(log2(largest)) = e - 1.
    low = np.where(largest > 0, np.frexp(largest)[1] - 3, -127)
    first, second = np.clip(low, -127, 127), np.clip(low + 1, -127, 127)
    codes, error = _encode(blocks, first)
    others, other_error = _encode(blocks, second)
    better = other_error < error
    codes = np.where(better[:, :, None], others, codes).reshape(rows, columns)
    scales = (np.where(better, second, first) + 127).astype(np.uint8)
    return codes[:, 0::2] | codes[:, 1::2] << 4, scales


def _encode(blocks: Array, exponents: Array) -> tuple[Array, Array]:
    """Codes u8[R, B, 32] at 2^exponents [R, B] per block, and the squared error f64[R, B]."""
    scaled = np.ldexp(blocks.astype(np.float64), -exponents[:, :, None])
    size = np.abs(scaled)
    codes = np.zeros(blocks.shape, np.uint8)
    for code, edge in enumerate(_EDGES):  # from `code` to `code + 1`; an edge stays at an even code
        codes += (size > edge) if code % 2 == 0 else (size >= edge)
    difference = np.abs(_VALUES[codes].astype(np.float64) - size)
    error = np.ldexp((difference * difference).sum(axis=2), 2 * exponents)
    codes |= np.where((scaled < 0) & (codes > 0), 8, 0).astype(np.uint8)
    return codes, error
