"""Sparse latent attention: the indexer's scores, the exact selection, attention over the selected rows."""

from .ops import dense_attention, indexer_scores, sparse_attention, top_k
from .packed import pack_keys, pack_latents, unpack_keys, unpack_latents

__all__ = [
    "dense_attention",
    "indexer_scores",
    "pack_keys",
    "pack_latents",
    "sparse_attention",
    "top_k",
    "unpack_keys",
    "unpack_latents",
]
