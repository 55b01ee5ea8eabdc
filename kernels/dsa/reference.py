"""What the sparse attention kernels compute, in float64 and without any trick: the definition.

Every argument is a plain array (no pages). Formulas: DeepSeek sparse attention over the absorbed form of
multi-head latent attention, without rope.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .rows import widen


def indexer_scores(q: Array, keys: Array, w: Array, first_position: int) -> Array:
    """I[t, s] = sum_h w[t, h] * max(0, q[t, h] . k[s]) for s <= first_position + t, else -inf.

    q [T, H, D], keys [N, D], w [T, H] (any constant scale already inside). float64 [T, N].
    """
    dots = np.einsum("thd,nd->thn", q.astype(np.float64), widen(keys).astype(np.float64))
    scores = np.einsum("th,thn->tn", w.astype(np.float64), np.maximum(dots, 0.0))
    limit = first_position + np.arange(q.shape[0])
    return np.where(np.arange(keys.shape[0])[None, :] <= limit[:, None], scores, -np.inf)


def top_k(scores: Array, k: int) -> Array:
    """Positions of the k largest of each row, largest first, of equals the lowest position first.

    -inf and NaN are never selected: missing places are -1. i64 [T, k].
    """
    found = np.full((scores.shape[0], k), -1, np.int64)
    for row, values in enumerate(scores):
        eligible = [s for s in range(len(values)) if values[s] > -np.inf]
        best = sorted(eligible, key=lambda s: (-float(values[s]), s))[:k]
        found[row, : len(best)] = best
    return found


def sparse_attention(
    q_latent: Array, q_pe: Array, latents: Array, pe: Array, indices: Array, scale: float
) -> Array:
    """Softmax attention of each token over its own rows `indices[t]` (-1: no row).

    score[h, s] = (q_latent[h] . latent[s] + q_pe[h] . pe[s]) * scale; out[h] = sum_s softmax(score)[h, s] *
    latent[s]. A token without any row gives zeros. float64 [T, H, L].
    """
    tokens, heads, width = q_latent.shape
    out = np.zeros((tokens, heads, width))
    for t in range(tokens):
        chosen = indices[t][indices[t] >= 0]
        if not chosen.size:
            continue
        c = widen(latents[chosen]).astype(np.float64)
        p = widen(pe[chosen]).astype(np.float64)
        score = (q_latent[t].astype(np.float64) @ c.T + q_pe[t].astype(np.float64) @ p.T) * scale
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        out[t] = (weight / weight.sum(axis=1, keepdims=True)) @ c
    return out


def dense_attention(
    q_latent: Array, q_pe: Array, latents: Array, pe: Array, first_position: int, scale: float
) -> Array:
    """The same over every row s <= first_position + t. float64 [T, H, L]."""
    tokens, count = q_latent.shape[0], latents.shape[0]
    limit = first_position + np.arange(tokens)[:, None]
    every = np.where(np.arange(count)[None, :] <= limit, np.arange(count)[None, :], -1)
    return sparse_attention(q_latent, q_pe, latents, pe, every, scale)
