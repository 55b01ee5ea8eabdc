"""Sequences: chunks of any size, batches of unequal length, forks, snapshots, and what happens without memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.protocol import Chunk, PoolExhausted, SequenceState
from whimbrel.engine.kimi.runner import KimiRunner
from whimbrel.engine.kimi.safetensors import SafetensorsFile
from whimbrel.engine.kimi.threads import per_head
from whimbrel.sandbox.base.errors import ConfigError, ModelError

from .making import k3, make
from .plain_model import Array

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"
EXACT = LoadOptions(exact=True, cache="f32")
NEAR = 1e-3
"""What float32 makes of the order of sums in these models; a wrong position or state costs 1000 times that."""


@pytest.fixture(scope="module", params=["k31-tiny", "kimi-linear-tiny"])
def folder(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / request.param


@pytest.fixture(scope="module")
def shared(folder: Path) -> KimiRunner:
    return load_runner(folder, EXACT)


@pytest.fixture
def runner(shared: KimiRunner) -> Iterator[KimiRunner]:
    """A runner that must get every page back."""
    yield shared
    assert shared.pages_free == shared.pages_total


@pytest.fixture(scope="module")
def tokens(folder: Path) -> Array:
    return SafetensorsFile(folder / "golden.safetensors").read("input_ids").reshape(-1)


@pytest.fixture(scope="module")
def golden(folder: Path) -> Array:
    return SafetensorsFile(folder / "golden.safetensors").read("logits")[0]


def feed(runner: KimiRunner, sequence: SequenceState, tokens: Array) -> Array:
    (logits,) = runner.forward([Chunk(sequence, tokens, "all")])
    assert logits is not None
    return logits


@pytest.mark.parametrize("size", [1, 2, 5, 15, 16, 17, 31, 39])
def test_a_prompt_in_chunks_of_any_size_gives_the_same_logits(
    size: int, runner: KimiRunner, tokens: Array, golden: Array
) -> None:
    sequence = runner.new()
    parts = [feed(runner, sequence, tokens[at : at + size]) for at in range(0, tokens.size, size)]
    assert np.abs(np.concatenate(parts) - golden).max() < NEAR
    sequence.close()


def test_sequences_of_unequal_length_run_in_one_batch(
    runner: KimiRunner, tokens: Array, golden: Array
) -> None:
    starts, sizes = (0, 3, 20), (12, 1, 17)
    sequences = [runner.new() for _ in starts]
    for sequence, start in zip(sequences, starts, strict=True):
        if start:
            runner.forward([Chunk(sequence, tokens[:start], "none")])
    parts = [tokens[at : at + size] for at, size in zip(starts, sizes, strict=True)]
    wants = ("all", "last", "none")
    chunks = [Chunk(s, p, w) for s, p, w in zip(sequences, parts, wants, strict=True)]  # type: ignore[arg-type]
    first, second, third = runner.forward(chunks)
    assert first is not None and second is not None and third is None
    assert first.shape == (12, golden.shape[1]) and second.shape == (1, golden.shape[1])
    assert np.abs(first - golden[:12]).max() < NEAR and np.abs(second - golden[3]).max() < NEAR
    assert [s.length for s in sequences] == [12, 4, 37]
    after = feed(runner, sequences[2], tokens[37:38])
    assert np.abs(after - golden[37]).max() < NEAR
    for sequence in sequences:
        sequence.close()


def test_a_fork_shares_the_past_and_goes_its_own_way(
    runner: KimiRunner, tokens: Array, golden: Array
) -> None:
    one = runner.new()
    feed(runner, one, tokens[:20])
    used = runner.pages_free
    two = one.fork()
    assert runner.pages_free == used
    feed(runner, one, tokens[:9])
    assert np.abs(feed(runner, two, tokens[20:30]) - golden[20:30]).max() < NEAR
    one.close()
    assert np.abs(feed(runner, two, tokens[30:40]) - golden[30:40]).max() < NEAR
    two.close()


def test_a_sequence_goes_back_to_a_snapshot_and_others_start_from_it(
    runner: KimiRunner, tokens: Array, golden: Array
) -> None:
    sequence = runner.new()
    feed(runner, sequence, tokens[:20])
    snapshot = sequence.snapshot()
    assert (snapshot.length, snapshot.pages) == (20, 1) and snapshot.nbytes == runner.state_bytes
    for _ in range(2):
        feed(runner, sequence, tokens[5:18])
        sequence.rewind(snapshot)
        assert sequence.length == 20
    assert np.abs(feed(runner, sequence, tokens[20:25]) - golden[20:25]).max() < NEAR
    sequence.close()
    other = runner.restore(snapshot)
    snapshot.close()
    assert np.abs(feed(runner, other, tokens[20:40]) - golden[20:40]).max() < NEAR
    other.close()
    with pytest.raises(ModelError, match="snapshot is closed"):
        runner.restore(snapshot)


def test_rows_of_embeddings_take_the_place_of_the_table(
    runner: KimiRunner, tokens: Array, golden: Array
) -> None:
    table = np.asarray(runner.model.embedding[tokens], np.float32)
    table[4] = np.nan
    sequence = runner.new()
    shown = np.where(np.arange(tokens.size) == 4, tokens, 0)
    (logits,) = runner.forward([Chunk(sequence, shown, "all", table)])
    assert logits is not None and np.abs(logits - golden).max() < NEAR
    sequence.close()


def test_without_pages_a_step_fails_and_changes_nothing(folder: Path, tokens: Array, golden: Array) -> None:
    runner = _small(folder, 3)
    first, second = runner.new(), runner.new()
    feed(runner, first, tokens[:20])
    feed(runner, second, tokens[:20])
    copy = first.fork()
    long = np.resize(tokens, 60)
    with pytest.raises(PoolExhausted) as failure:
        runner.forward([Chunk(first, tokens[20:25]), Chunk(second, long)])
    assert (failure.value.needed, failure.value.free) == (2, 1)
    assert (first.length, second.length, runner.pages_free) == (20, 20, 1)
    copy.close()
    second.close()
    assert np.abs(feed(runner, first, tokens[20:30]) - golden[20:30]).max() < NEAR
    first.close()
    assert runner.pages_free == 3


def _small(folder: Path, pages: int) -> KimiRunner:
    from whimbrel.engine.kimi.config import load_config
    from whimbrel.engine.kimi.pool import page_bytes

    size = page_bytes(load_config(folder), "f32")
    return load_runner(folder, LoadOptions(exact=True, cache="f32", cache_bytes=pages * size))


def test_a_cache_without_room_for_a_page_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="one page of 64 tokens"):
        load_runner(folder, LoadOptions(cache_bytes=100))


def test_a_bfloat16_cache_stays_near_the_exact_one(folder: Path, tokens: Array) -> None:
    runner = load_runner(folder, LoadOptions(exact=True, cache="bf16"))
    exact = load_runner(folder, EXACT)
    one, other = (feed(r, r.new(), tokens[:16]) for r in (runner, exact))
    error = np.sqrt(np.mean((one - other) ** 2) / np.mean(other**2))
    assert 0 < error < 0.1


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ([128], "outside the vocabulary"),
        ([-1], "outside the vocabulary"),
        ([], "at least one token"),
        ([1.5], "whole numbers"),
        ([1] * 4097, "more than the model's 4096"),
    ],
)
def test_tokens_that_cannot_be_are_refused_before_anything_changes(
    what: list[int], problem: str, runner: KimiRunner
) -> None:
    sequence = runner.new()
    with pytest.raises(ModelError, match=problem):
        runner.forward([Chunk(sequence, np.array(what))])
    assert sequence.length == 0
    sequence.close()
    with pytest.raises(ModelError, match="sequence is closed"):
        runner.forward([Chunk(sequence, np.array([1]))])


def test_a_step_that_breaks_in_the_middle_closes_its_sequences_and_spares_the_others(
    runner: KimiRunner, tokens: Array, golden: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    spared, broken = runner.new(), runner.new()
    feed(runner, spared, tokens[:20])
    with monkeypatch.context() as patch:
        patch.setattr(runner.source, "get", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            feed(runner, broken, tokens)
    with pytest.raises(ModelError, match="closed"):
        feed(runner, broken, tokens)
    assert np.abs(feed(runner, spared, tokens[20:40]) - golden[20:40]).max() < NEAR
    spared.close()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_long_prompts_cross_pages_and_copies_are_made_only_of_the_last_page(tmp_path: Path) -> None:
    plain = make(tmp_path, k3(3, [2]), tokens=8)
    runner = load_runner(tmp_path, EXACT)
    tokens = np.random.default_rng(3).integers(0, 48, 200)
    wanted = plain.logits(tokens)
    sequence = runner.new()
    feed(runner, sequence, tokens[:130])
    assert runner.pages_total - runner.pages_free == 3
    fork = sequence.fork()
    feed(runner, sequence, tokens[:3])
    assert runner.pages_total - runner.pages_free == 4
    assert np.abs(feed(runner, fork, tokens[130:]) - wanted[130:]).max() < NEAR


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_products_divided_among_threads_are_the_same(heads: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((96, heads, 200), np.float32).transpose(1, 0, 2)
    b = rng.standard_normal((heads, 200, 900), np.float32)
    assert np.allclose(per_head(a, b), np.matmul(a, b), atol=1e-3)


def test_rows_of_eight_bits_are_shared_copied_and_read_like_any_others(tmp_path: Path) -> None:
    dsa = {"index_n_heads": 4, "index_head_dim": 10, "index_topk": 5, "dsa_layers": [2, 5]}
    make(tmp_path, k3(kv_lora_rank=512, qk_rope_head_dim=64), dsa=dsa)
    runner = load_runner(tmp_path, LoadOptions(exact=True, cache="fp8", cache_bytes=1 << 22))
    assert runner.pool.page_bytes == 64 * 2 * (656 + 14)
    tokens = np.random.default_rng(3).integers(0, 48, 90)
    whole = runner.new()
    expected = feed(runner, whole, tokens)
    parts = runner.new()
    first = feed(runner, parts, tokens[:70])
    forked = parts.fork()
    feed(runner, forked, tokens[60:80])  # writes into a page that both held
    rest = feed(runner, parts, tokens[70:])
    # A value at the border of two codes may fall to either side: not the largest difference but most count.
    assert np.median(np.abs(first - expected[:70])) < NEAR
    assert np.median(np.abs(rest - expected[70:])) < NEAR
    for sequence in (whole, parts, forked):
        sequence.close()
    assert runner.pages_free == runner.pages_total
    runner.close()
