"""Dense products and the short convolution in float64: the definition."""

from __future__ import annotations

import numpy as np

from ..arrays import Array

GROUP = 64
"""Columns that share one scale in a weight of eight bits."""


def matmul(x: Array, w: Array) -> Array:
    """[T, C] times the transpose of [R, C] -> f64[T, R]."""
    return x.astype(np.float64) @ w.astype(np.float64).T


def quantise_int8(w: Array) -> tuple[Array, Array]:
    """[R, C] -> codes i8[R, C], scales f32[R, ceil(C/64)]: largest magnitude of the group / 127."""
    rows, columns = w.shape
    groups = -(-columns // GROUP)
    codes = np.zeros((rows, columns), np.int8)
    scales = np.zeros((rows, groups), np.float32)
    for r in range(rows):
        for g in range(groups):
            part = w[r, g * GROUP : (g + 1) * GROUP].astype(np.float32)
            scale = np.float32(np.abs(part).max() / np.float32(127))
            scales[r, g] = scale
            if scale > 0:
                codes[r, g * GROUP : (g + 1) * GROUP] = np.clip(np.rint(part / scale), -127, 127)
    return codes, scales


def dequantise_int8(codes: Array, scales: Array) -> Array:
    """codes i8[R, C], scales f32[R, ceil(C/64)] -> f64[R, C]."""
    return codes.astype(np.float64) * np.repeat(scales.astype(np.float64), GROUP, axis=1)[:, : codes.shape[1]]


def short_conv(x: Array, weight: Array, history: Array) -> tuple[Array, Array]:
    """y[t, c] = SiLU(sum over j of weight[c, j] * u[t - 3 + j, c]), u = history then x.

    Args:
        x: [T, C], the inputs of T tokens.
        weight: [C, 4], the last tap for the current token.
        history: [3, C], the inputs of the three tokens before, oldest first; zero where there are none.

    Returns:
        f64[T, C] and the new history f64[3, C].
    """
    u = np.concatenate([history, x]).astype(np.float64)
    taps = weight.astype(np.float64)
    total = sum(taps[:, j] * u[j : j + x.shape[0]] for j in range(4))
    y = total / (1 + np.exp(-np.asarray(total)))
    return np.asarray(y), u[-3:]
