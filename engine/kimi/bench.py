"""What a loaded model does in a second: prompt and decoding speed, and how much memory it reads for a token.

Tokens are random, in the prompt and after it, so that experts are chosen as widely as they can be; a real
text repeats itself and its experts. Nothing but the model runs: no scheduler, no sampling, no HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from ...kernels.native.bandwidth import read_speed
from ...kernels.native.library import status
from ...sandbox.base.errors import UsageError
from .linear import Linear
from .memory import available_memory, resident_memory
from .protocol import PAGE_TOKENS, Chunk, SequenceState
from .runner import KimiRunner
from .safetensors import Array
from .streaming import StreamedExperts


@dataclass(frozen=True)
class BenchOptions:
    """What is run.

    Args:
        prompt: tokens to read, `step` at a time.
        decode: tokens to write after it.
        batch: sequences that decode together, beside one alone.
        repeat: runs, of which the best counts.
        small: bytes read in a step below which the memory's speed is not asked for, since the processor's
            caches may serve.
        read_bytes: size of what is read to measure that speed.
    """

    prompt: int = 512
    decode: int = 32
    batch: int = 4
    repeat: int = 3
    step: int = 512
    small: int = 256 << 20
    read_bytes: int = 512 << 20


@dataclass(frozen=True)
class Decoding:
    """Decoding for `batch` sequences at a time, from the best of the runs.

    Bytes are those one token of one sequence takes: what a step reads, divided by the batch.
    """

    batch: int
    tokens_per_s: float
    step_ms: float
    """Median of the steps of the best run."""
    weight_bytes: float
    """Everything but routed experts, all of it in every step."""
    expert_bytes: float
    """Routed experts, counted: those that the steps asked for."""
    cache_bytes: float
    """Rows of the page cache."""
    state_bytes: float
    """State of the linear layers, read and written."""
    memory_share: float | None = None
    """Bytes a second divided by the measured reading speed; None where that was not measured."""

    @property
    def bytes_per_token(self) -> float:
        return self.weight_bytes + self.expert_bytes + self.cache_bytes + self.state_bytes


@dataclass(frozen=True)
class ExpertUse:
    """What the expert cache did during all runs; `streamed` is False for mapped experts, which always hit."""

    streamed: bool
    hits: int
    misses: int
    ahead: int
    bytes_read: int


@dataclass(frozen=True)
class BenchReport:
    """Speeds are the best of `repeat` runs; times in seconds, sizes in bytes."""

    family: str
    variant: str
    threads: int
    prompt: int
    decode: int
    repeat: int
    prefill_tokens_per_s: float
    first_token_s: float
    """From the prompt to the logits of the first token, one sequence, best run."""
    first_run_s: float
    """The same in the first run: weights may still have come from disk."""
    decoding: list[Decoding]
    read_speed: float | None
    """Bytes a second; None where numpy serves or every step reads less than `BenchOptions.small`."""
    resident: int | None
    """Memory of the process at the end; mapped weights count as far as they are held."""
    resident_own: int | None
    """Of that, what is not mapped files."""
    cache_used: int
    """Pages that the largest batch held."""
    experts: ExpertUse


def bench(runner: KimiRunner, options: BenchOptions) -> BenchReport:
    """Measures; the runner is as before afterwards.

    Raises:
        UsageError: prompt and decoding do not fit the model's context or the cache.
    """
    _check(runner, options)
    random = np.random.default_rng(0)
    prompt = random.integers(0, runner.vocab_size, options.prompt)
    firsts: list[float] = []
    sequence = runner.new()
    for _ in range(options.repeat):
        sequence.close()
        sequence = runner.new()
        firsts.append(_prefill(runner, sequence, prompt, options.step))
    measured: list[Decoding] = []
    used = 0
    try:
        for batch in sorted({1, options.batch}):
            result, pages = _decode(runner, sequence, batch, options, random)
            measured.append(result)
            used = max(used, pages)
    finally:
        sequence.close()
    speed = None
    large = [each for each in measured if each.bytes_per_token * each.batch >= options.small]
    if large:
        speed = read_speed(size=min(options.read_bytes, available_memory() // 4))
    if speed is not None:
        shares = {id(each): each.bytes_per_token * each.tokens_per_s / speed for each in large}
        measured = [replace(each, memory_share=shares.get(id(each))) for each in measured]
    stats, now = runner.source.stats, status()
    held = resident_memory()
    return BenchReport(
        family=runner.config.family,
        variant=now.variant,
        threads=now.threads,
        prompt=options.prompt,
        decode=options.decode,
        repeat=options.repeat,
        prefill_tokens_per_s=options.prompt / min(firsts),
        first_token_s=min(firsts),
        first_run_s=firsts[0],
        decoding=measured,
        read_speed=speed,
        resident=None if held is None else sum(held),
        resident_own=None if held is None else held[0],
        cache_used=used * runner.pool.page_bytes,
        experts=ExpertUse(
            isinstance(runner.source, StreamedExperts),
            stats.hits,
            stats.misses,
            stats.ahead,
            stats.bytes_read,
        ),
    )


def _check(runner: KimiRunner, options: BenchOptions) -> None:
    length = options.prompt + options.decode + 1
    if length > runner.max_context:
        raise UsageError(
            f"{options.prompt} tokens of prompt and {options.decode} to decode are more than the model's "
            f"{runner.max_context}"
        )
    # The shared prompt, and for each sequence the page it ends in and what it decodes.
    pages = -(-options.prompt // PAGE_TOKENS) + options.batch * (2 + -(-options.decode // PAGE_TOKENS))
    if pages > runner.pages_free:
        raise UsageError(
            f"this takes {pages} pages of {PAGE_TOKENS} tokens and the cache has {runner.pages_free}",
            hint="a shorter prompt, a smaller batch or a larger cache",
        )


def _prefill(runner: KimiRunner, sequence: SequenceState, prompt: Array, step: int) -> float:
    begun = time.perf_counter()
    for start in range(0, prompt.size, step):
        part = prompt[start : start + step]
        last = start + part.size == prompt.size
        runner.forward([Chunk(sequence, part, "last" if last else "none")])
    return time.perf_counter() - begun


def _decode(
    runner: KimiRunner,
    prompt: SequenceState,
    batch: int,
    options: BenchOptions,
    random: np.random.Generator,
) -> tuple[Decoding, int]:
    """The best run, and the pages in use at its end."""
    best: list[float] = []
    experts, pages = 0.0, 0
    for _ in range(options.repeat):
        # A fork copies its state when it is first written: that step is not timed.
        sequences = [prompt.fork() for _ in range(batch)]
        try:
            _step(runner, sequences, random)
            before = _asked(runner)
            times = [_step(runner, sequences, random) for _ in range(options.decode)]
            asked = (_asked(runner) - before) / options.decode
            pages = runner.pages_total - runner.pages_free
        finally:
            for sequence in sequences:
                sequence.close()
        if not best or sum(times) < sum(best):
            best, experts = times, asked * _expert_bytes(runner)
    rate = batch * len(best) / sum(best)
    context = options.prompt + 1 + options.decode // 2
    parts = (
        weight_bytes(runner) / batch,
        experts / batch,
        cache_bytes(runner, context),
        2.0 * runner.state_bytes,
    )
    result = Decoding(
        batch=batch,
        tokens_per_s=rate,
        step_ms=1e3 * float(np.median(best)),
        weight_bytes=parts[0],
        expert_bytes=parts[1],
        cache_bytes=parts[2],
        state_bytes=parts[3],
    )
    return result, pages


def _step(runner: KimiRunner, sequences: Sequence[SequenceState], random: np.random.Generator) -> float:
    tokens = random.integers(0, runner.vocab_size, (len(sequences), 1))
    begun = time.perf_counter()
    runner.forward([Chunk(sequence, token) for sequence, token in zip(sequences, tokens, strict=True)])
    return time.perf_counter() - begun


def _asked(runner: KimiRunner) -> int:
    """Experts that have been asked for: each once in a layer and step, however many tokens chose it."""
    return runner.source.stats.hits + runner.source.stats.misses


def _expert_bytes(runner: KimiRunner) -> float:
    """Bytes of an expert, on average over the layers."""
    table = getattr(runner.source, "table", None)
    if table is None:
        return 0.0
    return table.nbytes / max(1, sum(len(stored) for stored in table.stored.values()))


def weight_bytes(runner: KimiRunner) -> int:
    """Bytes of the weights that every step reads: all but routed experts and the embedding table."""
    model = runner.model
    parts: list[object] = [*model.layers, model.head, model.norm, model.output_mix]
    return sum(_held(part) for part in parts)


def cache_bytes(runner: KimiRunner, context: int) -> int:
    """Bytes of cached rows that one token reads at that context; with an indexer keys and chosen rows."""
    pool, config = runner.pool, runner.config
    total = 0
    for layer in config.own_full_layers:
        rows = context
        if config.dsa is not None and layer in config.dsa.layers and context > config.dsa.top_k:
            total += context * pool.key_bytes(layer)
            rows = config.dsa.top_k
        total += rows * pool.latent_bytes(layer)
    return total


def _held(value: object) -> int:
    if isinstance(value, Linear):
        return value.nbytes
    if isinstance(value, np.ndarray):
        return cast(Array, value).nbytes
    if isinstance(value, (tuple, list)):
        return sum(_held(each) for each in cast(Sequence[object], value))
    if is_dataclass(value) and not isinstance(value, type):
        # Counters of use are no weights.
        named = (field.name for field in fields(value) if field.name != "used")
        return sum(_held(getattr(value, name)) for name in named)
    return 0


def as_json(report: BenchReport) -> dict[str, Any]:
    """The report as plain values."""
    found = asdict(report)
    for each, plain in zip(report.decoding, found["decoding"], strict=True):
        plain["bytes_per_token"] = each.bytes_per_token
    return found
