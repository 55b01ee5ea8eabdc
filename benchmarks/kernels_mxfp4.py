"""MXFP4 products beside ggml's and beside the speed of the memory, in one run.

    python benchmarks/kernels_mxfp4.py [--threads 1 2] [--shape 3072x3584 ...] [--tokens 1 4 ...] [--rounds 5]
                                       [--megabytes 400]

Each matrix of a set larger than the caches is multiplied once per round, ours and the rivals' rounds alternate,
and the best round of each counts. `memory` is the share of the reading speed measured in the same run, `error`
the relative RMS error against float64. Absolute times are this machine's; the ratios are what is compared.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable

import numpy as np
from rivals import ggml
from whimbrel.kernels import mxfp4
from whimbrel.kernels.mxfp4 import reference
from whimbrel.kernels.native import library


def best(rounds: int, *runs: Callable[[], object]) -> list[float]:
    """Seconds of the best round of each, taken in turn."""
    times = [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            begin = time.perf_counter()
            run()
            times[i] = min(times[i], time.perf_counter() - begin)
    return times


def read_speed(rounds: int = 5) -> float:
    """Bytes per second that the pool reads from a buffer larger than most caches."""
    loaded = library.library()
    assert loaded is not None
    buffer = np.ones(512 << 20, np.uint8)
    address, size = ctypes.c_void_p(buffer.ctypes.data), ctypes.c_int64(buffer.nbytes)
    return buffer.nbytes / best(rounds, lambda: loaded.whimbrel_read(address, size))[0]


def error(value: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(((value - exact) ** 2).mean() / (exact**2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shape", nargs="+", default=["3072x3584", "3584x3072"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 4, 8, 16, 64, 512])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=400)
    options = parser.parse_args()
    status = library.status()
    if status.variant == "numpy":
        raise SystemExit(f"the native kernels are not in use: {status.reason}")
    rival = ggml.find()
    print(f"variant {status.variant}; ggml {'found' if rival else 'not found (make local builds it)'}")
    rng = np.random.default_rng(0)
    speeds: dict[int, float] = {}
    print("shape       threads tokens      ms   GB/s memory GFLOP/s   /ggml /repacked   error (ggml's)")
    for shape in options.shape:
        rows, columns = map(int, shape.split("x"))
        bytes_each = rows * columns // 2 + rows * columns // 32
        count = max(2, options.megabytes * 1_000_000 // bytes_each)
        weights = [
            (rng.integers(0, 256, (rows, columns // 2), np.uint8), rng.integers(118, 122, (rows, columns // 32), np.uint8))
            for _ in range(count)
        ]  # fmt: skip
        blocks = [ggml.mxfp4_blocks(*w) for w in weights] if rival else []
        for tokens in options.tokens:
            used = weights if tokens <= 32 else weights[: max(2, count // tokens)]
            x = rng.standard_normal((tokens, columns)).astype(np.float32)
            exact = reference.matmul(x, *used[0])
            rivals = [
                made
                for repacked in (False, True)
                if rival
                and (made := rival.matrices(ggml.MXFP4, rows, columns, blocks[: len(used)], repacked))
            ]
            for made in rivals:
                made.prepare(x)
            for threads in options.threads:
                with library.using(status.variant, threads):
                    if threads not in speeds:
                        speeds[threads] = read_speed()

                    def ours(x: np.ndarray = x, used: list[tuple[np.ndarray, np.ndarray]] = used) -> None:
                        for w in used:
                            mxfp4.matmul(x, *w)

                    times = best(
                        options.rounds, ours, *(lambda m=m, n=threads: m.compute(n) for m in rivals)
                    )  # fmt: skip
                    value = mxfp4.matmul(x, *used[0])
                each = times[0] / len(used)
                speed = bytes_each / each
                against = [f"{t / times[0]:7.2f}" for t in times[1:]] + ["      -"] * (3 - len(times))
                theirs = f" ({error(rivals[-1].result(0), exact):.1e})" if rivals else ""
                print(
                    f"{shape:11s} {threads:7d} {tokens:6d} {each * 1e3:7.3f} {speed / 1e9:6.1f}"
                    f" {100 * speed / speeds[threads]:5.0f}% {2e-9 * tokens * rows * columns / each:8.0f}"
                    f" {against[0]} {against[1]:>9s}   {error(value, exact):.1e}{theirs}",
                    flush=True,
                )
            for made in rivals:
                made.close()
    print("memory: " + ", ".join(f"{n} thread(s) {s / 1e9:.1f} GB/s" for n, s in speeds.items()))


if __name__ == "__main__":
    main()
