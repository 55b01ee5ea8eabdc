"""The public face of the residual mix and the RMS norm. Wrong shapes raise KernelError."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, KernelError


def attn_res_mix(candidates: Array, query: Array, eps: float) -> Array:
    """Attention residuals: per token, softmax over the candidates of (RMS-normed candidate . query), times
    the candidates as they are.

    candidates f32 [n, T, D] (n >= 1), query f32 [D] = norm weight * projection weight. f32 [T, D].
    """
    if candidates.ndim != 3 or not candidates.shape[0] or query.shape != candidates.shape[2:]:
        raise KernelError(
            f"expected candidates [n, T, D] and query [D], got {candidates.shape}, {query.shape}"
        )
    c = np.asarray(candidates, np.float32)
    square = np.einsum("ntd,ntd->nt", c, c) / np.float32(c.shape[2])
    score = np.matmul(c, np.asarray(query, np.float32)) / np.sqrt(square + np.float32(eps))
    score -= score.max(axis=0)
    np.exp(score, out=score)
    score /= score.sum(axis=0)
    out = c[0] * score[0][:, None]
    for weight, candidate in zip(score[1:], c[1:], strict=True):
        out += candidate * weight[:, None]
    return out


def rms_norm(x: Array, w: Array, eps: float) -> Array:
    """w * x / sqrt(mean(x^2) + eps) over the last axis: x f32 [..., D], w f32 [D]. f32 like x."""
    if not x.ndim or w.shape != x.shape[-1:]:
        raise KernelError(f"expected x [..., D] and w [D], got {x.shape}, {w.shape}")
    x = np.asarray(x, np.float32)
    square = np.einsum("...d,...d->...", x, x) / np.float32(x.shape[-1])
    return x / np.sqrt(square + np.float32(eps))[..., None] * w
