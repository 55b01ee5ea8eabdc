"""What the engine counts: plain numbers that a server exports as it likes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0)


class Histogram:
    """Counts per bucket; ``bounds`` are the upper ends (inclusive), one bucket more takes the rest."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
        self.count = 0
        self._lock = Lock()

    def observe(self, value: float) -> None:
        with self._lock:
            self.counts[bisect_left(self.bounds, value)] += 1
            self.sum += value
            self.count += 1

    def cumulative(self) -> tuple[list[tuple[float, int]], float]:
        """([(upper end, count up to it)], sum) of one moment; the last end is infinite."""
        with self._lock:
            total, steps = 0, list[tuple[float, int]]()
            for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
                total += count
                steps.append((bound, total))
            return steps, self.sum


def _seconds() -> Histogram:
    return Histogram(_SECONDS)


def _sizes() -> Histogram:
    return Histogram(_SIZES)


@dataclass
class Metrics:
    """Written by the worker thread, read by anyone. Times in seconds, sizes in tokens, bytes or pages."""

    time_to_first_token: Histogram = field(default_factory=_seconds)
    inter_token: Histogram = field(default_factory=_seconds)
    queue_time: Histogram = field(default_factory=_seconds)
    step_time: Histogram = field(default_factory=_seconds)
    batch: Histogram = field(default_factory=_sizes)
    """Sequences in a step."""
    step_tokens: Histogram = field(default_factory=_sizes)
    waiting: int = 0
    running: int = 0
    requests: int = 0
    finished: dict[str, int] = field(default_factory=dict[str, int])
    """Requests by how they ended: stop, length, cancelled, error."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    computed_tokens: int = 0
    """Tokens that went through the model, recomputed and rejected ones included."""
    preemptions: int = 0
    drafted_tokens: int = 0
    drafts_kept: int = 0
    pages_total: int = 0
    pages_free: int = 0
    prefix_lookups: int = 0
    prefix_hits: int = 0
    prefix_entries: int = 0
    prefix_bytes: int = 0
    prefix_evictions: int = 0

    def ended(self, how: str) -> None:
        self.finished[how] = self.finished.get(how, 0) + 1
