"""The speed at which this machine's memory is read: the mark that products are held against."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from .library import library

PIECE = 20 << 20
"""Bytes timed together: long enough for a clock, short enough to fit between two disturbances."""


def read_speed(
    *, size: int = 512 << 20, rounds: int = 4, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Bytes per second at which the kernels' threads read, from the best piece of a buffer.

    Args:
        size: bytes of the buffer; it must be much larger than the processor's caches.
        rounds: how often the whole buffer is read.
        clock: seconds; `time.thread_time` where one thread does it all and others use the machine too.

    Returns:
        None where the kernels run on numpy.
    """
    loaded = library()
    if loaded is None:
        return None
    buffer = np.ones(max(size, 2 * PIECE), np.uint8)
    best = float("inf")
    for _ in range(rounds):
        for begin in range(0, buffer.nbytes - PIECE, PIECE):
            address = ctypes.c_void_p(buffer.ctypes.data + begin)
            started = clock()
            loaded.whimbrel_read(address, ctypes.c_int64(PIECE))
            best = min(best, clock() - started)
    return PIECE / best
