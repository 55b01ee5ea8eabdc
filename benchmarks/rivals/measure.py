"""What the benchmarks of kernels share: alternating best-of-N, the speed of the memory, the error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from whimbrel.kernels.native import bandwidth

GROUP = 4
"""Matrices in one timed piece: long enough for a clock, short enough to fit between two disturbances."""


def best(rounds: int, *runs: Sequence[Callable[[], object]], threads: int = 1) -> list[float]:
    """Seconds of the best piece of each contender; the pieces of all contenders are taken in turn.

    With one thread it is the thread's own processor time: what else runs on the machine then counts less.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = [float("inf")] * len(runs)
    for _ in range(rounds):
        for piece in zip(*runs, strict=True):
            for i, run in enumerate(piece):
                begin = clock()
                run()
                times[i] = min(times[i], clock() - begin)
    return times


def read_speed(threads: int) -> float:
    """Bytes per second at which the pool reads; with one thread by its processor time, as `best`."""
    speed = bandwidth.read_speed(clock=time.thread_time if threads == 1 else time.perf_counter)
    assert speed is not None
    return speed


def error(value: np.ndarray, exact: np.ndarray) -> float:
    """Relative RMS error."""
    return float(np.sqrt(((value - exact) ** 2).mean() / (exact**2).mean()))
