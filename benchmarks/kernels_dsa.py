"""Sparse latent attention beside ggml's operators and numpy, in one run.

    python benchmarks/kernels_dsa.py [--threads 1 2] [--rows 4096 65536] [--rounds 5]

One query token at full size: indexer 32 x 128, 2048 rows selected, 96 heads over latents of 512 + 64, cached rows
in bfloat16. Rounds alternate and
the best of each counts; with one thread it is processor time (numpy: always the clock on the wall). `GB/s` is the speed at which keys are read; `layer` is
scores + selection + sparse attention, set against dense attention over all rows. ggml gets float16 rows, its
fastest. Where the processor has a tile unit (AMX) a second line shows the kernels without it. Absolute times
are this machine's; the ratios are what is compared. `error` is the relative RMS error against float64.
"""

from __future__ import annotations

import argparse

import ml_dtypes
import numpy as np
from rivals import attention, ggml
from rivals.measure import best, error
from whimbrel.kernels import dsa
from whimbrel.kernels.dsa import reference
from whimbrel.kernels.native import library

SELECTED, HEADS, LATENT, SHARED = 2048, 96, 512, 64
SCALE = 192**-0.5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, nargs="+", default=[4096, 65536])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    status = library.status()
    if status.variant == "numpy":
        raise SystemExit(f"the native kernels are not in use: {status.reason}")
    rival = ggml.find()
    variants = [status.variant, *(["avx512"] if status.variant == "amx" else [])]
    print(f"variant {status.variant}; ggml {'found' if rival else 'not found (make local builds it)'}")
    print(
        "    rows threads variant  | scores ms  GB/s  /ggml /numpy | top-k ms /numpy | sparse ms  /ggml /numpy   error"
        " (ggml's) | dense ms dense/layer"
    )
    made = np.random.default_rng(0)
    q, w = made.standard_normal((1, 32, 128), np.float32), made.standard_normal((1, 32), np.float32)
    q_latent = made.standard_normal((1, HEADS, LATENT), np.float32)
    q_pe = made.standard_normal((1, HEADS, SHARED), np.float32)
    for rows in options.rows:
        keys = made.standard_normal((rows, 128), np.float32).astype(ml_dtypes.bfloat16)
        cache = made.standard_normal((rows, LATENT + SHARED), np.float32).astype(ml_dtypes.bfloat16)
        latents, pe = cache[:, :LATENT], cache[:, LATENT:]
        scores = dsa.indexer_scores(q, keys, w, rows - 1)
        indices = dsa.top_k(scores, SELECTED)
        exact = reference.sparse_attention(q_latent, q_pe, latents, pe, indices, SCALE)
        wide = np.concatenate((q_latent[0], q_pe[0]), axis=1)
        chosen = cache[indices[0]].astype(np.float16)
        index = attention.indexer(rival, q, keys.astype(np.float16), w) if rival else None
        flash = attention.attention(rival, wide, chosen, LATENT, SCALE) if rival else None

        def score() -> object:
            return dsa.indexer_scores(q, keys, w, rows - 1)  # noqa: B023

        def select() -> object:
            return dsa.top_k(scores, SELECTED)  # noqa: B023

        def sparse() -> np.ndarray:
            return dsa.sparse_attention(q_latent, q_pe, latents, pe, indices, SCALE)  # noqa: B023

        def dense() -> object:
            return dsa.dense_attention(q_latent, q_pe, latents, pe, rows - 1, SCALE)  # noqa: B023

        for threads in options.threads:
            for variant in variants:
                with library.using(variant, threads):
                    runs = [score, select, sparse]
                    runs += [lambda g=g, n=threads: g.compute(n) for g in (index, flash) if g]
                    ours = best(options.rounds, *([run] for run in runs), threads=threads)
                    (all_rows,) = best(3, [dense], threads=threads)
                    wrong = f"{error(sparse(), exact):.1e}"
                with library.using("numpy"):
                    plain = best(2, [score], [select], [sparse], threads=0)
                theirs = (
                    f"({error(flash.values(exact.size).reshape(exact.shape), exact):.1e})" if flash else ""
                )
                against = (
                    [f"{ours[3] / ours[0]:6.1f}", f"{ours[4] / ours[2]:6.1f}"] if rival else ["     -"] * 2
                )
                print(
                    f"{rows:8d} {threads:7d} {variant:8s} | {ours[0] * 1e3:9.3f}"
                    f" {keys.nbytes / ours[0] / 1e9:5.1f} {against[0]} {plain[0] / ours[0]:6.1f}"
                    f" | {ours[1] * 1e3:8.3f} {plain[1] / ours[1]:6.1f}"
                    f" | {ours[2] * 1e3:9.3f} {against[1]} {plain[2] / ours[2]:6.1f} {wrong:>7s} {theirs:>9s}"
                    f" | {all_rows * 1e3:8.2f} {all_rows / sum(ours[:3]):11.1f}",
                    flush=True,
                )
        for graph in (index, flash):
            if graph:
                graph.close()


if __name__ == "__main__":
    main()
