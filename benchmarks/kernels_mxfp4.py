"""MXFP4 products beside ggml's and beside the speed of the memory, in one run.

    python benchmarks/kernels_mxfp4.py [--threads 1 2] [--shape 3072x3584 ...] [--tokens 1 4 ...] [--rounds 5]
                                       [--megabytes 400]

The matrices of a set larger than the caches are multiplied four at a time, ours and the rivals' in turn, and the
best four of each count. `memory` is the share of the reading speed measured in the same run, `error`
the relative RMS error against float64. Absolute times are this machine's; the ratios are what is compared.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from rivals import ggml
from rivals.measure import GROUP, best, error, read_speed
from whimbrel.kernels import mxfp4
from whimbrel.kernels.mxfp4 import reference
from whimbrel.kernels.native import library


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
        pieces = max(2, options.megabytes * 1_000_000 // bytes_each // GROUP)
        weights = [
            (rng.integers(0, 256, (rows, columns // 2), np.uint8), rng.integers(118, 122, (rows, columns // 32), np.uint8))
            for _ in range(pieces * GROUP)
        ]  # fmt: skip
        theirs: list[list[ggml.Matrices]] = []
        for repacked in (False, True) if rival else ():
            blocks = [ggml.mxfp4_blocks(*w) for w in weights]
            groups = [
                rival.matrices(ggml.MXFP4, rows, columns, blocks[i : i + GROUP], repacked)
                for i in range(0, len(blocks), GROUP)
            ]
            theirs.append([group for group in groups if group])
        for tokens in options.tokens:
            used = pieces if tokens <= 16 else max(1, pieces * 8 // tokens)
            x = rng.standard_normal((tokens, columns)).astype(np.float32)
            exact = reference.matmul(x, *weights[0])
            for group in (g for groups in theirs for g in groups[:used]):
                group.prepare(x)

            def ours(
                piece: int, x: np.ndarray = x, weights: list[tuple[np.ndarray, np.ndarray]] = weights
            ) -> None:
                for w in weights[piece * GROUP : (piece + 1) * GROUP]:
                    mxfp4.matmul(x, *w)

            for threads in options.threads:
                with library.using(status.variant, threads):
                    if threads not in speeds:
                        speeds[threads] = read_speed(threads)
                    times = best(
                        options.rounds,
                        [partial(ours, piece) for piece in range(used)],
                        *(
                            [partial(group.compute, threads) for group in groups[:used]]
                            for groups in theirs
                            if groups
                        ),
                        threads=threads,
                    )
                    value = mxfp4.matmul(x, *weights[0])
                each = times[0] / GROUP
                speed = bytes_each / each
                against = [f"{t / times[0]:.2f}" for t in times[1:]] + ["-"] * (3 - len(times))
                rivals_error = f" ({error(theirs[0][0].result(0), exact):.1e})" if theirs else ""
                print(
                    f"{shape:11s} {threads:7d} {tokens:6d} {each * 1e3:7.3f} {speed / 1e9:6.1f}"
                    f" {100 * speed / speeds[threads]:5.0f}% {2e-9 * tokens * rows * columns / each:8.0f}"
                    f" {against[0]:>7s} {against[1]:>9s}   {error(value, exact):.1e}{rivals_error}",
                    flush=True,
                )
        for group in (g for groups in theirs for g in groups):
            group.close()
    print("memory: " + ", ".join(f"{n} thread(s) {s / 1e9:.1f} GB/s" for n, s in speeds.items()))


if __name__ == "__main__":
    main()
