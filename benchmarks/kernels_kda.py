"""Kimi delta attention beside ggml's gated delta net and numpy, in one run.

    python benchmarks/kernels_kda.py [--threads 1 2] [--tokens 1 64 512] [--rounds 5]

96 heads of 128 x 128. The decode step walks over several states, so that none is in a cache as far as memory
allows, and is also set against the speed at which the same states are scaled in place. Rounds alternate and
the best of each counts; with one thread it is processor time (numpy: always the clock on the wall). Absolute times are this machine's; the ratios are what is compared. `error` is the
relative RMS error against float64.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from rivals import attention, ggml
from rivals.measure import best, error
from whimbrel.kernels import kda
from whimbrel.kernels.kda import reference
from whimbrel.kernels.native import library

HEADS, WIDTH = 96, 128


def case(tokens: int) -> list[np.ndarray]:
    made = np.random.default_rng(tokens)
    q, k, v, raw = (made.standard_normal((tokens, HEADS, WIDTH), np.float32) for _ in range(4))
    q /= np.linalg.norm(q, axis=2, keepdims=True) * WIDTH**0.5
    k /= np.linalg.norm(k, axis=2, keepdims=True)
    gate = (-5 / (1 + np.exp(3 - 2 * raw))).astype(np.float32)
    beta = made.random((tokens, HEADS), np.float32)
    return [made.standard_normal((HEADS, WIDTH, WIDTH), np.float32), q, k, v, gate, beta]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 64, 512])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    status = library.status()
    if status.variant == "numpy":
        raise SystemExit(f"the native kernels are not in use: {status.reason}")
    rival = ggml.find()
    print(f"variant {status.variant}; ggml {'found' if rival else 'not found (make local builds it)'}")
    print("tokens threads       ms  us/token   /ggml  /numpy  of in-place speed   error (ggml's)")
    for tokens in options.tokens:
        state, *inputs = case(tokens)
        if tokens <= 64:
            exact, _ = reference.recurrent(state, *inputs)
        theirs = None
        if rival:
            turned = np.ascontiguousarray(state.transpose(0, 2, 1))
            theirs = attention.delta(rival, turned, inputs[0] * np.float32(WIDTH**0.5), *inputs[1:])
        for threads in options.threads:
            states = [state.copy() for _ in range(32 if tokens == 1 else 1)]

            def ours(each: np.ndarray, inputs: list[np.ndarray] = inputs) -> None:
                if inputs[0].shape[0] == 1:
                    kda.decode_step(each, *(array[0] for array in inputs))
                else:
                    kda.chunked(each, *inputs)

            def scale(each: np.ndarray) -> None:
                np.multiply(each, 0.999, out=each)

            runs = [[partial(ours, each) for each in states], [partial(scale, each) for each in states]]
            if theirs:
                runs.append([partial(theirs.compute, threads)] * len(states))
            with library.using(status.variant, threads):
                first = state.copy()
                value = kda.chunked(first, *inputs)
                times = best(options.rounds, *runs, threads=threads)
            with library.using("numpy"):
                plain = best(2 if tokens <= 64 else 1, [partial(ours, states[0])], threads=0)[0]
            against = f"{times[2] / times[0]:7.2f}" if theirs else "      -"
            memory = f"{100 * times[1] / times[0]:16.0f}%" if tokens == 1 else " " * 17
            wrong = "" if tokens > 64 else f"{error(value, exact):9.1e}"
            if theirs and tokens <= 64:
                wrong += f" ({error(theirs.values(exact.size).reshape(exact.shape), exact):.1e})"
            print(
                f"{tokens:6d} {threads:7d} {times[0] * 1e3:8.3f} {times[0] * 1e6 / tokens:9.1f} {against}"
                f" {plain / times[0]:7.1f} {memory} {wrong}",
                flush=True,
            )
        if theirs:
            theirs.close()


if __name__ == "__main__":
    main()
