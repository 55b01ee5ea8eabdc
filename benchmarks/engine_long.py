"""Long contexts at small width: sparse attention beside dense attention, up to a million tokens.

    python benchmarks/engine_long.py [--wide] [--contexts 4096 ... 1048512] [--prefill-s 60] [--decode 16]
                                     [--cache bf16]

Random checkpoints of `engine tiny`: hidden 64, four layers, three of them linear and one of full attention; the
indexer of K3.1 selects 2048 rows. Full attention has 4 heads over 32 + 8 values and an indexer of 4 heads of 16;
with `--wide` it is as in the release, 96 heads over 512 + 64 and an indexer of 32 heads of 128.

First a real prompt, in chunks, as far as the seconds given allow. Then decoding at each context, over cached rows
that are random: reading a prompt of a million tokens takes time that grows with its square. Everything that a
decoded token does is real. What sparse attention reads of the latents stays the same from 2048 tokens on, and what
its indexer reads grows with the context, four times slower than what dense attention reads.

`memory` is what the process holds beside mapped files and the cache's pages. Times are the best of the steps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from whimbrel.engine.kimi.load import LoadOptions, load_runner

import numpy as np  # isort: skip - after `load`, which decides about its threads
from whimbrel.engine.kimi.memory import resident_memory
from whimbrel.engine.kimi.pool import CacheKind
from whimbrel.engine.kimi.protocol import PAGE_TOKENS, Chunk
from whimbrel.engine.kimi.runner import KimiRunner
from whimbrel.engine.kimi.state import KimiSequence, reserve
from whimbrel.engine.kimi.tiny import Family, TinyOptions, make_tiny
from whimbrel.kernels.native import library

CHUNK, SELECTED = 1024, 2048


def prefill(runner: KimiRunner, sequence: KimiSequence, most: int, seconds: float) -> list[tuple[int, float]]:
    """Reads random tokens until the time or the length is over; (tokens so far, tokens/s) at each doubling."""
    random, marks = np.random.default_rng(0), []
    begun = time.perf_counter()
    while sequence.length + CHUNK <= most and time.perf_counter() - begun < seconds:
        before = time.perf_counter()
        runner.forward([Chunk(sequence, random.integers(0, runner.vocab_size, CHUNK), "none")])
        took = time.perf_counter() - before
        if sequence.length & (sequence.length - 1) == 0:
            marks.append((sequence.length, CHUNK / took))
    return marks


def fill(runner: KimiRunner, sequence: KimiSequence, length: int) -> None:
    """Random rows up to `length`."""
    pool, config, random = runner.pool, runner.config, np.random.default_rng(1)
    assert config.mla is not None
    while sequence.length < length:
        count = min(length - sequence.length, 1 << 16)
        reserve(pool, [(sequence, count)])
        for layer in config.own_full_layers:
            width = config.mla.kv_lora_rank + config.mla.pe_dim
            rows = random.random((count, width), np.float32) - np.float32(0.5)
            pool.write_latents(layer, sequence.table, sequence.length, rows)
            if config.dsa is not None and layer in config.dsa.layers:
                keys = random.random((count, config.dsa.head_dim), np.float32) - np.float32(0.5)
                pool.write_keys(layer, sequence.table, sequence.length, keys)
        sequence.length += count


def decode(runner: KimiRunner, sequence: KimiSequence, tokens: int) -> float:
    """Seconds of the best of so many steps."""
    random, best = np.random.default_rng(2), float("inf")
    for _ in range(tokens):
        token = random.integers(0, runner.vocab_size, 1)
        begun = time.perf_counter()
        runner.forward([Chunk(sequence, token)])
        best = min(best, time.perf_counter() - begun)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    contexts = [4096, 16384, 65536, 262144, 1048512]
    parser.add_argument("--contexts", type=int, nargs="+", default=contexts)
    parser.add_argument("--prefill-s", type=float, default=60)
    parser.add_argument("--decode", type=int, default=16)
    parser.add_argument("--cache", choices=["f32", "bf16", "fp8"], default="bf16")
    parser.add_argument("--wide", action="store_true")
    options = parser.parse_args()
    cache: CacheKind = options.cache
    status = library.status()
    print(f"kernels {status.variant}, {status.threads} threads; cache {cache}")
    families: dict[Family, str] = {"k31": "sparse (k31)", "k3": "dense (k3)"}
    for family, name in families.items():
        with tempfile.TemporaryDirectory() as place:
            longest = max(options.contexts) + options.decode + PAGE_TOKENS
            made = TinyOptions(
                family=family, layers=4, top_k=SELECTED, max_context=longest, wide=options.wide
            )
            make_tiny(Path(place, "model"), made)
            sizes = LoadOptions(cache=cache, cache_bytes=(longest + 2 * PAGE_TOKENS) * 2880)
            runner = load_runner(Path(place, "model"), sizes)
            try:
                measure(runner, name, options)
            finally:
                runner.close()


def measure(runner: KimiRunner, name: str, options: argparse.Namespace) -> None:
    """Prints the table of one model."""
    sequence = runner.new()
    assert isinstance(sequence, KimiSequence)
    marks = prefill(runner, sequence, max(options.contexts), options.prefill_s)
    print(f"\n{name}: read {sequence.length:,} tokens in chunks of {CHUNK}")
    for length, rate in marks:
        print(f"  at {length:9,} tokens {rate:9,.0f} tokens/s")
    read = sequence.length
    sequence.close()
    sequence = runner.new()
    assert isinstance(sequence, KimiSequence)
    decode(runner, sequence, 2)
    print("    context  decode ms  cache MB  memory MB")
    for context in sorted(options.contexts):
        fill(runner, sequence, context)
        took = decode(runner, sequence, options.decode)
        used = (runner.pages_total - runner.pages_free) * runner.pool.page_bytes
        held = resident_memory()
        # Pages that the prompt wrote stay claimed when they are free again.
        claimed = max(used, -(-read // PAGE_TOKENS) * runner.pool.page_bytes)
        rest = "-" if held is None else f"{(held[0] - claimed) / 1e6:.0f}"
        print(f"{context:11,} {took * 1e3:10.2f} {used / 1e6:9.1f} {rest:>10s}", flush=True)
    sequence.close()


if __name__ == "__main__":
    main()
