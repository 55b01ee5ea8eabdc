"""Sparse latent attention: the indexer's scores, the exact selection, attention over the selected rows."""

from .ops import dense_attention, indexer_scores, sparse_attention, top_k

__all__ = ["dense_attention", "indexer_scores", "sparse_attention", "top_k"]
