"""The public face of sparse latent attention: checks, then the fastest path there is.

T query tokens at the consecutive positions first_position..; row s of a cache belongs to position s.
Cached rows (`keys`, `latents`, `pe`) are float32 or bfloat16 and come as [N, width], or as a page pool
[pages, page_size, width] with `table` (i32, page of each page_size rows) and, where the last page is not
full, `length`. Rows of eight bits (uint8, see `packed`) serve as well: keys of D + 4 bytes, latents of 656
bytes, which hold their `pe` and take none. Wrong shapes or dtypes raise KernelError.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, KernelError, as_f32
from ..native.library import library
from . import native, plain
from .packed import LATENT, SHARED
from .rows import Rows, rows


def _position(first_position: int) -> int:
    if first_position < 0:
        raise KernelError(f"first_position is {first_position}; positions begin at 0")
    return int(first_position)


def indexer_scores(
    q: Array,
    keys: Array,
    w: Array,
    first_position: int,
    *,
    table: Array | None = None,
    length: int | None = None,
) -> Array:
    """I[t, s] = sum_h w[t, h] * max(0, q[t, h] . k[s]), -inf beyond the causal limit s <= first_position + t.

    q [T, H, D], keys [N, D] or pool, w [T, H] with every constant scale inside. f32 [T, N].
    """
    q, w = as_f32("q", q, None, None, None), as_f32("w", w, None, None)
    held = rows(keys, table, length, "keys", "key8")
    if w.shape != q.shape[:2] or held.width != q.shape[2]:
        raise KernelError(f"shapes do not fit: q {q.shape}, keys {keys.shape}, w {w.shape}")
    first_position = _position(first_position)
    if loaded := library():
        return native.indexer_scores(loaded, q, held, w, first_position)
    return plain.indexer_scores(q, held, w, first_position)


def top_k(scores: Array, k: int) -> Array:
    """Positions of the k largest scores of each row: i64 [T, k], largest first, ties to the lowest position.

    -inf and NaN are never selected; where fewer than k are left the rest is -1. scores f32 [T, N].
    """
    if k < 0:
        raise KernelError(f"k is {k}; it cannot be negative")
    scores = as_f32("scores", scores, None, None)
    if (loaded := library()) and scores.shape[1] < 2**32:
        return native.top_k(loaded, scores, int(k))
    return plain.top_k(scores, int(k))


def _cache(
    q_latent: Array, q_pe: Array, latents: Array, pe: Array | None, table: Array | None, length: int | None
) -> tuple[Array, Array, Rows, Rows | None]:
    q_latent = as_f32("q_latent", q_latent, None, None, None)
    q_pe = as_f32("q_pe", q_pe, *q_latent.shape[:2], None)
    held = rows(latents, table, length, "latents", "latent8")
    if (held.kind == "latent8") != (pe is None):
        raise KernelError("rows of 656 bytes hold their own pe, and no others do")
    shared = None if pe is None else rows(pe, table, length, "pe")
    if shared is None:
        fits = q_latent.shape[2] == LATENT and q_pe.shape[2] == SHARED
    else:
        same = held.length == shared.length and held.page_size == shared.page_size
        fits = same and held.width == q_latent.shape[2] and shared.width == q_pe.shape[2]
    if not fits:
        raise KernelError(
            f"shapes do not fit: q_latent {q_latent.shape}, q_pe {q_pe.shape}, "
            f"latents {latents.shape}, pe {'none' if pe is None else pe.shape}"
        )
    return q_latent, q_pe, held, shared


def sparse_attention(
    q_latent: Array,
    q_pe: Array,
    latents: Array,
    pe: Array | None,
    indices: Array,
    scale: float,
    *,
    table: Array | None = None,
    length: int | None = None,
) -> Array:
    """Attention of each token over its own rows `indices[t]` (i64 [T, k]; negative: no row), any order.

    out[t, h] = sum_s softmax_s((q_latent[t, h] . latent[s] + q_pe[t, h] . pe[s]) * scale) * latent[s]:
    f32 [T, H, L] (the absorbed form: the caller applies W_UV). A token without rows gives zeros.
    """
    q_latent, q_pe, held, shared = _cache(q_latent, q_pe, latents, pe, table, length)
    if indices.ndim != 2 or indices.shape[0] != q_latent.shape[0] or indices.dtype.kind not in "iu":
        raise KernelError(f"indices: expected integers [{q_latent.shape[0]}, k], got {indices.shape}")
    if indices.size and int(indices.max()) >= held.length:
        raise KernelError(f"indices: row {int(indices.max())} was asked for, {held.length} are there")
    if loaded := library():
        indices = np.ascontiguousarray(indices, np.int64)
        return native.attention(loaded, q_latent, q_pe, held, shared, indices, 0, scale)
    return plain.sparse_attention(q_latent, q_pe, held, shared, indices, scale)


def dense_attention(
    q_latent: Array,
    q_pe: Array,
    latents: Array,
    pe: Array | None,
    first_position: int,
    scale: float,
    *,
    table: Array | None = None,
    length: int | None = None,
) -> Array:
    """The same over every row s <= first_position + t. f32 [T, H, L]."""
    q_latent, q_pe, held, shared = _cache(q_latent, q_pe, latents, pe, table, length)
    first_position = _position(first_position)
    if loaded := library():
        return native.attention(loaded, q_latent, q_pe, held, shared, None, first_position, scale)
    return plain.dense_attention(q_latent, q_pe, held, shared, first_position, scale)
