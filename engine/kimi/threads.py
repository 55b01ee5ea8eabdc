"""Threads for the products that numpy does: parts of the work for threads that sleep when there is none.

numpy's own library divides each product among threads that wait for each other in a busy loop. On a machine
that others use too, or beside our kernels' threads, they wait most of the time: a product that takes 20 ms
alone took 270. So it gets one thread where this module is imported before numpy, and `per_head` divides the
heads of a product instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

_LIMITS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

if "numpy" not in sys.modules and not any(name in os.environ for name in _LIMITS):
    os.environ.update(dict.fromkeys(_LIMITS, "1"))
    import numpy as np

    for _name in _LIMITS:
        # It has been read; programs that we start decide for themselves.
        del os.environ[_name]
else:
    import numpy as np

from ...kernels.native.library import status  # noqa: E402 - after numpy's threads are set
from .safetensors import Array  # noqa: E402

T = TypeVar("T")
WORTH_DIVIDING = 1 << 24
"""Multiply-adds from which a product is divided."""


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="heads")


def workers() -> int:
    """Threads worth using: as many as the kernels use."""
    return status().threads or os.cpu_count() or 1


def in_bands(rows: int, make: Callable[[slice], T]) -> list[T]:
    """`make` of each band of rows, several at a time; the results in order."""
    count = min(workers(), rows)
    if count < 2:
        return [make(slice(0, rows))]
    borders = [rows * part // count for part in range(count + 1)]
    bands = [slice(a, b) for a, b in pairwise(borders)]
    return list(_pool(count).map(make, bands))


def per_head(a: Array, b: Array) -> Array:
    """a f32[H, T, C] times b f32[H, C, R] -> f32[H, T, R], each head by itself."""
    heads, tokens, columns = a.shape
    if heads < 2 or heads * tokens * columns * b.shape[2] < WORTH_DIVIDING:
        return np.matmul(a, b)
    out = np.empty((heads, tokens, b.shape[2]), np.float32)

    def run(some: slice) -> None:
        np.matmul(a[some], b[some], out=out[some])

    in_bands(heads, run)
    return out
