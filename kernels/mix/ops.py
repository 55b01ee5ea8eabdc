"""The public face of the residual mix and the RMS norm. Wrong shapes raise KernelError."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, KernelError
from ..native.library import library
from . import native, plain


def attn_res_mix(candidates: Array, query: Array, eps: float) -> Array:
    """Attention residuals: per token, softmax over the candidates of (RMS-normed candidate . query), times
    the candidates as they are.

    candidates f32 [n, T, D] (n >= 1), query f32 [D] = norm weight * projection weight. f32 [T, D].
    """
    if candidates.ndim != 3 or not candidates.shape[0] or query.shape != candidates.shape[2:]:
        raise KernelError(
            f"expected candidates [n, T, D] and query [D], got {candidates.shape}, {query.shape}"
        )
    candidates = np.ascontiguousarray(candidates, np.float32)
    query = np.ascontiguousarray(query, np.float32)
    if loaded := library():
        return native.attn_res_mix(loaded, candidates, query, eps)
    return plain.attn_res_mix(candidates, query, eps)


def rms_norm(x: Array, w: Array, eps: float) -> Array:
    """w * x / sqrt(mean(x^2) + eps) over the last axis: x f32 [..., D], w f32 [D]. f32 like x."""
    if not x.ndim or w.shape != x.shape[-1:]:
        raise KernelError(f"expected x [..., D] and w [D], got {x.shape}, {w.shape}")
    x, w = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(w, np.float32)
    if loaded := library():
        return native.rms_norm(loaded, x, w, eps)
    return plain.rms_norm(x, w, eps)
