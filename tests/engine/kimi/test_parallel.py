"""One model on two and four processes: the numbers of one process, and what happens when one of them fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.parallel.layout import Layout
from whimbrel.engine.kimi.parallel.runner import ParallelRunner
from whimbrel.engine.kimi.protocol import Chunk, PoolExhausted, Runner
from whimbrel.sandbox.base.errors import ConfigError, ModelError

from .making import k3, kimi_linear, make
from .plain_model import Array

EXACT = LoadOptions(exact=True, cache="f32", cache_bytes=1 << 22)
K3 = k3(
    6, [2, 5, 6], num_attention_heads=4, num_key_value_heads=4, intermediate_size=64, num_experts=7,
    moe_intermediate_size=32, num_shared_experts=2, vocab_size=50, linear={"num_heads": 4},
)  # fmt: skip
LINEAR = kimi_linear(
    4, [2], num_attention_heads=4, num_key_value_heads=4, intermediate_size=64, num_experts=4
)
LINEAR["linear_attn_config"]["num_heads"] = 4
DSA = {"index_n_heads": 4, "index_head_dim": 8, "index_topk": 10, "dsa_layers": [2, 5, 6]}
NEAR = 5e-4
"""What float32 makes of sums in another order in these models; a wrong share or position costs 1000 times that."""
ROWS = 60
"""Tokens of a long prompt: experts' tokens are sent to their owners."""


@pytest.fixture(scope="module", params=["k31", "kimi-linear"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp(request.param)
    if request.param == "k31":
        make(made, K3, tokens=ROWS, dsa=DSA)
    else:
        make(made, LINEAR, tokens=ROWS, packed=False)
    return made


def everything(runner: Runner, tokens: Array) -> list[Array]:
    """Prompts of unequal length in one batch, decoding, a fork, and going back."""
    one, two = runner.new(), runner.new()
    found = runner.forward([Chunk(one, tokens, "all"), Chunk(two, tokens[:7], "last")])
    saved = one.snapshot()
    fork = one.fork()
    found += runner.forward([Chunk(one, tokens[:1]), Chunk(fork, tokens[3:5], "all"), Chunk(two, tokens[:2])])
    one.rewind(saved)
    found += runner.forward([Chunk(one, tokens[5:9], "all"), Chunk(two, tokens[9:10], "none")])
    again = runner.restore(saved)
    found += runner.forward([Chunk(again, tokens[5:9], "all")])
    for each in (one, two, fork, saved, again):
        each.close()
    assert runner.pages_free == runner.pages_total
    return [rows for rows in found if rows is not None]


@pytest.mark.parametrize("layout", [Layout(2, 1), Layout(1, 2), Layout(2, 2), Layout(4, 1)], ids=str)
def test_several_processes_give_the_numbers_of_one(folder: Path, layout: Layout):
    tokens = np.random.default_rng(1).integers(0, 48, ROWS)
    alone = load_runner(folder, EXACT)
    expected = everything(alone, tokens)
    runner = ParallelRunner.load(folder, EXACT, layout)
    try:
        found = everything(runner, tokens)
        assert len(found) == len(expected) == 7
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == theirs.shape
            assert np.abs(ours - theirs).max() < NEAR
        if layout.pipeline == 1:
            used, all_used = runner.expert_use(), alone.expert_use()
            assert {n: rows.tolist() for n, rows in used.items()} == {
                n: rows.tolist() for n, rows in all_used.items()
            }
    finally:
        runner.close()
        alone.close()


def test_a_step_that_cannot_be_leaves_all_processes_in_step(folder: Path):
    tokens = np.arange(20) % 48
    small = LoadOptions(exact=True, cache="f32", cache_bytes=1)
    with pytest.raises(ConfigError, match="one page"):
        ParallelRunner.load(folder, small, Layout(2, 1))
    runner = ParallelRunner.load(folder, EXACT, Layout(2, 1))
    try:
        sequence = runner.new()
        with pytest.raises(ModelError, match="outside the vocabulary"):
            runner.forward([Chunk(sequence, np.array([1, 5000]))])
        with pytest.raises(PoolExhausted):
            more = [runner.new() for _ in range(runner.pages_total + 1)]
            runner.forward([Chunk(each, tokens) for each in more])
        (before,) = runner.forward([Chunk(sequence, tokens)])
        (after,) = runner.forward([Chunk(runner.new(), tokens)])
        assert before is not None and after is not None and np.array_equal(before, after)
    finally:
        runner.close()


def test_a_process_that_is_killed_ends_the_model_with_a_reason_and_leaves_none_behind(folder: Path):
    runner = ParallelRunner.load(folder, EXACT, Layout(2, 2))
    pids = [process.pid for process in runner._processes]
    try:
        sequence = runner.new()
        runner.forward([Chunk(sequence, np.arange(5))])
        assert runner.trouble == ""
        os.kill(pids[1] or 0, signal.SIGKILL)
        runner._processes[1].wait(10)
        assert runner.trouble == "process 2 of 4 of the model is gone", "it is known before the next step"
        with pytest.raises(ModelError, match="a process of the model failed") as raised:
            runner.forward([Chunk(sequence, np.arange(5))])
        assert "\n" not in raised.value.one_line()
        with pytest.raises(ModelError, match="have ended"):
            runner.forward([Chunk(runner.new(), np.arange(5))])
        assert all(process.poll() is not None for process in runner._processes)
        assert "have ended" in runner.trouble
    finally:
        runner.close()


@pytest.mark.parametrize(
    ("layout", "reason"),
    [(Layout(3, 1), "cannot be shared out among 3"), (Layout(1, 9), "more than the model's"),
     (Layout(0, 1), "at least one")],
)  # fmt: skip
def test_a_layout_that_does_not_fit_is_refused_before_anything_starts(
    folder: Path, layout: Layout, reason: str
):
    with pytest.raises(ConfigError, match=reason):
        ParallelRunner.load(folder, EXACT, layout)


def test_every_layer_and_share_is_somewhere_exactly_once():
    for layers in (1, 5, 93):
        for tensor, pipeline in ((1, 1), (2, 1), (2, 3), (8, 2)):
            if pipeline <= layers:
                layout = Layout(tensor, pipeline)
                held = [n for rank in range(0, layout.size, tensor) for n in layout.stage(rank, layers)]
                assert held == list(range(layers))
                assert [layout.share(rank) for rank in range(layout.size)] == [*range(tensor)] * pipeline
