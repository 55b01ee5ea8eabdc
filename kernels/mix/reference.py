"""Attention residuals and the RMS norm in float64: the definition."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def attn_res_mix(candidates: Array, query: Array, eps: float) -> Array:
    """Per token, softmax over the n candidates of (norm(candidate) . query), times the raw candidates.

    candidates [n, T, D], query [D] (norm weight times projection weight). float64 [T, D].
    """
    c = candidates.astype(np.float64)
    normed = c / np.sqrt(np.mean(c * c, axis=2, keepdims=True) + eps)
    score = normed @ query.astype(np.float64)
    weight = np.exp(score - score.max(axis=0))
    weight /= weight.sum(axis=0)
    return np.sum(weight[:, :, None] * c, axis=0)


def rms_norm(x: Array, w: Array, eps: float) -> Array:
    """w * x / sqrt(mean(x^2) + eps) over the last axis. float64."""
    x = x.astype(np.float64)
    return w.astype(np.float64) * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
