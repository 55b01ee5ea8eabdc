"""Garbage is collected while nobody waits.

A full collection stops everything for a fifth of a second once a long conversation is in memory,
just when text streams in fastest. What start-up made never becomes garbage, so it is taken out of
the collector's sight; full collections happen when the process has been at rest, and only then,
or when very much has piled up.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["CalmCollector"]

EVERY_S = 3.0
AT_REST = 0.1
"""Share of a processor below which nothing goes on."""
PILED_UP = 2_000
"""Middle collections since the last full one after which it is not put off any longer."""
_NEVER = 1_000_000


class _Timers(Protocol):
    def set_interval(self, interval: float, callback: Callable[[], None]) -> object: ...


class CalmCollector:
    """Takes the full collections of this process into its own hands; ``stop`` gives them back."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._before = gc.get_threshold()
        self._seen = (clock(), cpu())
        self.collections = 0
        """Full collections so far."""

    def start(self, timers: _Timers) -> None:
        """After the first paint: what exists now stays."""
        gc.freeze()
        gc.set_threshold(self._before[0], self._before[1], _NEVER)
        self._seen = (self._clock(), self._cpu())
        timers.set_interval(EVERY_S, self.look)

    def look(self) -> None:
        """Collects when nothing went on since the last look and there is something to collect."""
        (then, spent), self._seen = self._seen, (self._clock(), self._cpu())
        passed = max(1e-6, self._seen[0] - then)
        waiting = gc.get_count()[2]
        if waiting and ((self._seen[1] - spent) / passed < AT_REST or waiting > PILED_UP):
            gc.collect()
            self.collections += 1
            # The collection itself is no activity.
            self._seen = (self._clock(), self._cpu())

    def stop(self) -> None:
        """As it was."""
        gc.set_threshold(*self._before)
        gc.unfreeze()
