"""How long and how far a search goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from .family import Harm

CANDIDATES = "candidates"
TIME = "time"


@dataclass(frozen=True)
class Limits:
    """Bounds of one search.

    The promise "same input, same patch" holds when the candidate limit, not the clock,
    ends the search; the result says which one did.
    """

    max_candidates: int = 4000
    max_seconds: float = 240.0
    neighbours: int = 400
    """Candidates tried after the first plausible patch, at most."""
    neighbour_scores: Mapping[Harm, float] = field(
        default_factory=lambda: {Harm.PRECISE: 0.35, Harm.LOOSENS: 0.35, Harm.REMOVES: 0.3}
    )
    """... and only while they score at least this share of it: the more harm, the longer the look around."""


@dataclass(frozen=True)
class Clock:
    """When the search, and when everything, must be over (``time.monotonic`` values)."""

    search_until: float
    all_until: float

    @classmethod
    def start(cls, limits: Limits, deadline: float | None, reserve_s: float) -> Clock:
        """``reserve_s`` is kept back for the proof of what was found."""
        now = time.monotonic()
        until = now + limits.max_seconds
        if deadline is not None:
            until = min(until, deadline)
        return cls(max(now, until - min(reserve_s, 0.5 * (until - now))), until)

    def searching(self) -> bool:
        return time.monotonic() < self.search_until

    def left(self) -> float:
        return max(0.0, self.all_until - time.monotonic())
