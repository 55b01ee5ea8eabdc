"""The residual mix and the RMS norm in numpy: they serve where the native library was not built."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def attn_res_mix(candidates: Array, query: Array, eps: float) -> Array:
    c = candidates
    square = np.einsum("ntd,ntd->nt", c, c) / np.float32(c.shape[2])
    score = np.matmul(c, query) / np.sqrt(square + np.float32(eps))
    score -= score.max(axis=0)
    np.exp(score, out=score)
    score /= score.sum(axis=0)
    out = c[0] * score[0][:, None]
    for weight, candidate in zip(score[1:], c[1:], strict=True):
        out += candidate * weight[:, None]
    return out


def rms_norm(x: Array, w: Array, eps: float) -> Array:
    square = np.einsum("...d,...d->...", x, x) / np.float32(x.shape[-1])
    return x / np.sqrt(square + np.float32(eps))[..., None] * w
