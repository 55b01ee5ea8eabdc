"""Dense products with bf16 and eight-bit weights beside ggml's and beside the speed of the memory, in one run.

    python benchmarks/kernels_dense.py [--threads 1 2] [--shape 12288x7168] [--tokens 1 4 64] [--rounds 3]
                                       [--megabytes 700]

Timed as in kernels_mxfp4.py; ggml's eight bits are its Q8_0 (34 bytes for 32 weights, ours 68 for 64).
"""

from __future__ import annotations

import argparse
from functools import partial

import ml_dtypes
import numpy as np
from rivals import ggml
from rivals.measure import GROUP, best, error, read_speed
from whimbrel.kernels import dense
from whimbrel.kernels.native import library


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shape", nargs="+", default=["12288x7168", "7168x12288"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 4, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=700)
    options = parser.parse_args()
    status = library.status()
    if status.variant == "numpy":
        raise SystemExit(f"the native kernels are not in use: {status.reason}")
    rival = ggml.find()
    print(f"variant {status.variant}; ggml {'found' if rival else 'not found (make local builds it)'}")
    rng = np.random.default_rng(0)
    speeds: dict[int, float] = {}
    print("weights shape       threads tokens      ms   GB/s memory GFLOP/s   /ggml   error (ggml's)")
    for shape in options.shape:
        rows, columns = map(int, shape.split("x"))
        plain = rng.standard_normal((rows, columns), np.float32)
        for kind in ("bf16", "int8"):
            narrow = plain.astype(ml_dtypes.bfloat16)
            weight = dense.quantise_int8(plain) if kind == "int8" else narrow
            bytes_each = weight.nbytes
            count = max(2, options.megabytes * 1_000_000 // bytes_each // GROUP * GROUP)
            if isinstance(weight, dense.Int8Weight):
                copies = [dense.Int8Weight(weight.codes.copy(), weight.scales.copy()) for _ in range(count)]
                content, form = ggml.q8_0_blocks(plain), ggml.Q8_0
                product = dense.matmul_int8
            else:
                copies = [narrow.view(np.uint16).copy() for _ in range(count)]
                content, form = narrow.tobytes(), ggml.BF16
                product = dense.matmul
            theirs = (
                [rival.matrices(form, rows, columns, [content], False) for _ in range(count)] if rival else []
            )
            for tokens in options.tokens:
                used = count if tokens <= 8 else 1
                x = rng.standard_normal((tokens, columns), np.float32)
                exact = x.astype(np.float64) @ (narrow if kind == "bf16" else plain)[:512].T.astype(
                    np.float64
                )
                for group in theirs[:used]:
                    group.prepare(x)
                for threads in options.threads:
                    with library.using(status.variant, threads):
                        if threads not in speeds:
                            speeds[threads] = read_speed(threads)
                        times = best(
                            options.rounds,
                            [partial(product, x, w) for w in copies[:used]],
                            *(
                                [[partial(group.compute, threads) for group in theirs[:used]]]
                                if theirs
                                else []
                            ),
                            threads=threads,
                        )
                        value = product(x, copies[0])[:, :512]
                    speed = bytes_each / times[0]
                    ratio = f"{times[1] / times[0]:.2f}" if theirs else "-"
                    rivals_error = f" ({error(theirs[0].result(0)[:, :512], exact):.1e})" if theirs else ""
                    print(
                        f"{kind:7s} {shape:11s} {threads:7d} {tokens:6d} {times[0] * 1e3:7.2f} {speed / 1e9:6.1f}"
                        f" {100 * speed / speeds[threads]:5.0f}% {2e-9 * tokens * rows * columns / times[0]:8.0f}"
                        f" {ratio:>7s}   {error(value, exact):.1e}{rivals_error}",
                        flush=True,
                    )
            for group in theirs:
                group.close()
    print("memory: " + ", ".join(f"{n} thread(s) {s / 1e9:.1f} GB/s" for n, s in speeds.items()))


if __name__ == "__main__":
    main()
