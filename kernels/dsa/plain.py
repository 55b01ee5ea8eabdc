"""The sparse attention kernels in numpy, float32: they serve where the native library was not built."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .rows import Rows

KEYS_AT_ONCE = 4096


def indexer_scores(q: Array, keys: Rows, w: Array, first_position: int) -> Array:
    tokens, heads, width = q.shape
    scores = np.full((tokens, keys.length), -np.inf, np.float32)
    flat = q.reshape(tokens * heads, width)
    for start in range(0, min(keys.length, first_position + tokens), KEYS_AT_ONCE):
        stop = min(start + KEYS_AT_ONCE, keys.length)
        dots = np.maximum(flat @ keys.block(start, stop).T, 0).reshape(tokens, heads, stop - start)
        scores[:, start:stop] = np.matmul(w[:, None, :], dots)[:, 0]
    future = np.arange(keys.length)[None, :] > first_position + np.arange(tokens)[:, None]
    scores[future] = -np.inf
    return scores


def top_k(scores: Array, k: int) -> Array:
    found = np.full((scores.shape[0], k), -1, np.int64)
    for row, values in enumerate(scores):
        eligible = np.flatnonzero(values > -np.inf)
        kept = values[eligible]
        if kept.size > k > 0:
            # The k-th largest value: all above it, and of its equals the lowest positions.
            border = np.partition(kept, kept.size - k)[kept.size - k]
            above = np.flatnonzero(kept > border)
            equal = np.flatnonzero(kept == border)[: k - above.size]
            picked = np.sort(np.concatenate((above, equal)))
            eligible, kept = eligible[picked], kept[picked]
        order = np.argsort(-kept, kind="stable")[:k]
        found[row, : order.size] = eligible[order]
    return found


def _both(latents: Rows, pe: Rows | None, positions: Array) -> Array:
    """f32 [n, L + P]."""
    first = latents.gather(positions)
    return first if pe is None else np.concatenate((first, pe.gather(positions)), axis=1)


def sparse_attention(
    q_latent: Array, q_pe: Array, latents: Rows, pe: Rows | None, indices: Array, scale: float
) -> Array:
    q = np.concatenate((q_latent, q_pe), axis=2) * np.float32(scale)
    out = np.zeros(q_latent.shape, np.float32)
    for t in range(q.shape[0]):
        chosen = indices[t][indices[t] >= 0]
        if not chosen.size:
            continue
        both = _both(latents, pe, chosen)
        score = q[t] @ both.T
        score -= score.max(axis=1, keepdims=True)
        np.exp(score, out=score)
        out[t] = score @ both[:, : q_latent.shape[2]]
        out[t] /= score.sum(axis=1, keepdims=True)
    return out


def dense_attention(
    q_latent: Array, q_pe: Array, latents: Rows, pe: Rows | None, first_position: int, scale: float
) -> Array:
    """Blocks of keys with a running maximum, so that memory stays small at any length."""
    tokens, heads, width = q_latent.shape
    q = np.concatenate((q_latent, q_pe), axis=2).reshape(tokens * heads, -1) * np.float32(scale)
    out = np.zeros((tokens * heads, width), np.float32)
    top = np.full((tokens * heads, 1), -np.inf, np.float32)
    total = np.zeros((tokens * heads, 1), np.float32)
    limit = np.repeat(first_position + np.arange(tokens), heads)[:, None]
    for start in range(0, min(latents.length, first_position + tokens), KEYS_AT_ONCE):
        stop = min(start + KEYS_AT_ONCE, latents.length, first_position + tokens)
        both = _both(latents, pe, np.arange(start, stop))
        score = q @ both.T
        if stop - 1 > first_position:
            score[np.arange(start, stop)[None, :] > limit] = -np.inf
        highest = np.maximum(top, score.max(axis=1, keepdims=True))
        # Row 0 is visible to every token, so `highest` is finite from the first block on.
        keep = np.exp(top - highest)
        np.exp(score - highest, out=score)
        out = out * keep + score @ both[:, :width]
        total = total * keep + score.sum(axis=1, keepdims=True)
        top = highest
    if latents.length:
        out /= total
    return out.reshape(tokens, heads, width)
