"""Kimi delta attention: one decode step, the recurrence over tokens, and the chunk form for prefill."""

from .ops import chunked, decode_step, recurrent

__all__ = ["chunked", "decode_step", "recurrent"]
