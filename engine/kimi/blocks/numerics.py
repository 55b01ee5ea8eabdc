"""Elementwise functions in float32."""

from __future__ import annotations

import numpy as np

from ..safetensors import Array


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z))."""
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-z))


def softplus(z: Array) -> Array:
    """log(1 + exp(z)), without overflow; five times as fast as `logaddexp`, and as exact."""
    return np.maximum(z, np.float32(0)) + np.log1p(np.exp(-np.abs(z)))


def layer_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    y = centred / np.sqrt(variance + np.float32(eps)) * weight
    return y if bias is None else y + bias
