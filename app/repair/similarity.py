"""How alike two identifiers are."""

from __future__ import annotations

import re
from functools import lru_cache

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@lru_cache(maxsize=65536)
def likeness(first: str, second: str) -> float:
    """0 (nothing in common) to 1 (equal): spelling, or shared words of the names, whichever is larger."""
    from rapidfuzz.distance import Indel

    spelling = float(Indel.normalized_similarity(first, second))
    ours = {part.lower() for part in _PARTS.findall(first)}
    theirs = {part.lower() for part in _PARTS.findall(second)}
    union = len(ours | theirs)
    words = len(ours & theirs) / union if union else 0.0
    return max(spelling, words)
