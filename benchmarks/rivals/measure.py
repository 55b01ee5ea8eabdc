"""What the benchmarks of kernels share: alternating best-of-N, the speed of the memory, the error."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

import numpy as np
from whimbrel.kernels.native import library

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


def read_speed(threads: int, rounds: int = 4) -> float:
    """Bytes per second at which the pool reads, from the best 20 MB of 512 MB."""
    loaded = library.library()
    assert loaded is not None
    buffer, piece = np.ones(512 << 20, np.uint8), 20 << 20

    def reading(begin: int) -> Callable[[], object]:
        address = ctypes.c_void_p(buffer.ctypes.data + begin)
        return lambda: loaded.whimbrel_read(address, ctypes.c_int64(piece))

    pieces = [reading(begin) for begin in range(0, buffer.nbytes - piece, piece)]
    return piece / best(rounds, pieces, threads=threads)[0]


def error(value: np.ndarray, exact: np.ndarray) -> float:
    """Relative RMS error."""
    return float(np.sqrt(((value - exact) ** 2).mean() / (exact**2).mean()))
