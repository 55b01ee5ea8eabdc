"""Whether guessing ahead pays: what checking k guessed tokens costs beside computing one, and a text that repeats itself.

    python benchmarks/speculation.py [FOLDER] [--context 512] [--rounds 7]

Without FOLDER a random model with 32 experts a layer is made. The first table is free of assumptions about the
text: `cost` is a step with k guesses over a step without (the snapshot to go back to included), `needed` how
many of the k must be right on average for the same speed, where the wrong ones are computed again. The second
runs the whole scheduler on an answer that repeats its prompt, and on one that never does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.protocol import Chunk
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.scheduling.metrics import Metrics
from whimbrel.engine.scheduling.request import Request, Sampling
from whimbrel.engine.scheduling.scheduler import Limits, Scheduler

GUESSES = (1, 2, 4, 8, 16)


class Script:
    """A guide that writes a text: what a model that repeats it would say."""

    def __init__(self, text: list[int], vocab: int) -> None:
        self._text, self._vocab, self._at = text, vocab, 0

    def forced(self) -> tuple[int, ...]:
        return ()

    def allowed(self) -> np.ndarray:
        mask = np.zeros(self._vocab, np.bool_)
        mask[self._text[self._at]] = True
        return mask

    def accept(self, token: int) -> None:
        self._at += 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made) / "model"
        if given.folder is None:
            make_tiny(folder, TinyOptions(hidden=512, layers=8, experts=32))
        runner = load_runner(folder, LoadOptions(cache_bytes=256 << 20))
        print(f"{folder.name}: vocabulary {runner.vocab_size}, state {runner.state_bytes / 1e6:.2f} MB")
        steps(runner, given.context, given.rounds)
        answers(runner, given.context)
        runner.close()


def steps(runner, context: int, rounds: int) -> None:
    random = np.random.default_rng(0)
    start = runner.new()
    runner.forward([Chunk(start, random.integers(0, runner.vocab_size, context), "last")])
    begun = start.snapshot()
    best = dict.fromkeys((0, *GUESSES), float("inf"))
    for _ in range(rounds):
        for size in best:
            tokens = random.integers(0, runner.vocab_size, 1 + size)
            start.rewind(begun)
            begin = time.perf_counter()
            held = start.snapshot() if size else None
            runner.forward([Chunk(start, tokens, "all")])
            best[size] = min(best[size], time.perf_counter() - begin)
            if held is not None:
                held.close()
    print(f"\none token: {best[0] * 1e3:.2f} ms\n{'guesses':>8} {'ms':>8} {'cost':>6} {'needed':>7}")
    for size in GUESSES:
        cost = best[size] / best[0]
        # A step gives 1 + kept tokens; the kept ones go through the model again with the next, at the price of
        # as many guesses (about (cost - 1) / size each), unless all were right.
        again = (cost - 1) / size
        needed = (cost - 1) / (1 - again) if again < 1 else float("inf")
        print(f"{size:8d} {best[size] * 1e3:8.2f} {cost:6.2f} {min(needed, 99):7.2f}")
    begun.close()
    start.close()


def answers(runner, context: int) -> None:
    random = np.random.default_rng(1)
    prompt = random.integers(0, runner.vocab_size, context).tolist()
    texts = {
        "repeats its prompt": prompt[:160],
        "never repeats": random.integers(0, runner.vocab_size, 160).tolist(),
    }
    print(f"\n{'answer':>20} {'guesses':>8} {'ms/token':>9} {'kept':>6}")
    for name, text in texts.items():
        for size in (0, 4, 8, 16):
            work = Scheduler(runner, Limits(prefix_bytes=0), Metrics())
            work.add(
                Request(
                    [*prompt, *prompt[:4]], Sampling(temperature=0), max_tokens=150,
                    guide=Script(text[4:], runner.vocab_size), speculate=size,
                ),
                lambda item: None,
            )  # fmt: skip
            work.step()
            begin = time.perf_counter()
            while work.step():
                pass
            took, figures = time.perf_counter() - begin, work.metrics
            kept = figures.drafts_kept / figures.drafted_tokens if figures.drafted_tokens else 0
            print(f"{name:>20} {size:8d} {took * 1e3 / figures.output_tokens:9.2f} {kept:6.0%}")


if __name__ == "__main__":
    main()
