"""Experts through a cache of a fixed size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from whimbrel.engine.kimi.checkpoint import Checkpoint
from whimbrel.engine.kimi.config import load_config
from whimbrel.engine.kimi.experts import ExpertTable, MappedExperts
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.memory import available_memory
from whimbrel.engine.kimi.protocol import Chunk
from whimbrel.engine.kimi.streaming import StreamedExperts
from whimbrel.sandbox.base.errors import ConfigError, ModelError

from .making import k3, make, tensors_for, write_checkpoint

LAYERS = [1, 2, 3, 4]


def table_of(folder: Path) -> ExpertTable:
    config = load_config(folder)
    assert config.moe is not None and config.moe.latent is not None
    return ExpertTable(Checkpoint(folder), config.moe, config.moe.latent, LAYERS)


@pytest.fixture
def table(tmp_path: Path) -> ExpertTable:
    make(tmp_path, k3(), tokens=2, shards=2)
    return table_of(tmp_path)


def test_an_expert_is_one_read_of_its_own_bytes(table: ExpertTable) -> None:
    spans = [stored.span() for layer in LAYERS for stored in table.stored[layer]]
    whole = [span for span in spans if span is not None]
    assert len(whole) >= len(spans) - 1, "only the expert at the border of two files may be in two places"
    assert {stop - start for _, start, stop in whole} == {table.largest}


def test_what_is_read_equals_what_is_mapped(table: ExpertTable) -> None:
    for layer in LAYERS:
        for expert in range(6):
            read, mapped = table.read(layer, expert), table.mapped(layer, expert)
            for name in ("w1", "w2", "w3"):
                for ours, theirs in zip(getattr(read, name), getattr(mapped, name), strict=True):
                    assert np.array_equal(ours, theirs)


def test_mapped_experts_are_announced_to_the_system_and_stay_the_same(table: ExpertTable) -> None:
    experts = MappedExperts(table, advise=True)
    experts.announce(2, [1, 4])
    assert np.array_equal(experts.get(2, 4).w2[0], table.read(2, 4).w2[0])


def test_the_least_recently_used_expert_makes_room(table: ExpertTable) -> None:
    experts = StreamedExperts(table, 3 * table.largest)
    for expert in (0, 1, 2, 0, 3, 0, 1):
        experts.get(1, expert)
    assert (experts.stats.hits, experts.stats.misses) == (2, 5)
    assert experts.stats.bytes_read == 5 * table.largest
    experts.close()


def test_announced_experts_are_read_ahead_and_counted(table: ExpertTable) -> None:
    experts = StreamedExperts(table, 8 * table.largest)
    for layer in LAYERS * 5:
        experts.announce(layer, [0, 2, 3, 5])
        for expert in (0, 2, 3, 5):
            assert np.array_equal(experts.get(layer, expert).w1[0], table.mapped(layer, expert).w1[0])
    assert experts.stats.hits + experts.stats.misses == 80
    assert experts.stats.misses >= 16
    experts.close()


def test_a_cache_of_two_experts_still_gives_the_models_numbers(tmp_path: Path) -> None:
    plain = make(tmp_path, k3(), tokens=16)
    tokens = np.arange(16)
    size = table_of(tmp_path).largest
    with pytest.raises(ConfigError, match="one expert takes"):
        load_runner(tmp_path, LoadOptions(expert_cache=2 * size - 1))
    runner = load_runner(tmp_path, LoadOptions(exact=True, cache="f32", expert_cache=2 * size))
    (logits,) = runner.forward([Chunk(runner.new(), tokens, "all")])
    runner.close()
    assert logits is not None and np.abs(logits - plain.logits(tokens)).max() < 1e-3


def test_a_scale_that_is_no_number_is_found_at_loading_and_when_its_expert_is_used(tmp_path: Path) -> None:
    text = k3(2, [2])
    tensors = tensors_for(text, np.random.default_rng(0))
    tensors["model.layers.1.block_sparse_moe.experts.4.w2.weight_scale"][3, 0] = 255
    write_checkpoint(tmp_path, text, tensors)
    problem = r"experts\.4\.w2\.weight_scale holds a scale that is no number \(255\) at row 3, block 0"
    with pytest.raises(ModelError, match=problem):
        load_runner(tmp_path)
    config = load_config(tmp_path)
    assert config.moe is not None
    table = ExpertTable(Checkpoint(tmp_path), config.moe, 32, [1])
    with pytest.raises(ModelError, match=problem):
        table.mapped(1, 4)
    experts = StreamedExperts(table, 1 << 16)
    experts.announce(1, [0, 4])
    experts.get(1, 0)
    for _ in range(2):
        with pytest.raises(ModelError, match=problem):
            experts.get(1, 4)
    experts.close()


@pytest.mark.parametrize(
    ("line", "place", "limit", "used"),
    [
        ("0::/box/inner", "sys/fs/cgroup/box", "memory.max", "memory.current"),
        ("5:memory:/box", "sys/fs/cgroup/memory/box", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_a_control_groups_limit_counts_as_the_machines_memory(
    line: str, place: str, limit: str, used: str, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemAvailable:   8000000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text(f"3:cpu:/\n{line}\n")
    assert available_memory(tmp_path) == 8000000 * 1024
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / limit).write_text("1000000\n")
    (tmp_path / place / used).write_text("600000\n")
    (tmp_path / place / "memory.stat").write_text(
        "anon 5\ntotal_inactive_file 100000\ninactive_file 100000\n"
    )
    assert available_memory(tmp_path) == 500000
