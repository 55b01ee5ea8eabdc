"""`whimbrel engine bench`: what it counts, on checkpoints small enough to count by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from whimbrel.app.commands.engine_bench import command
from whimbrel.engine.kimi.bench import BenchOptions, bench, weight_bytes
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.tiny import Family, TinyOptions, make_tiny
from whimbrel.sandbox.base.errors import UsageError

SMALL = ("--prompt", "40", "--decode", "3", "--batch", "3", "--repeat", "2", "--step-tokens", "16")


def measured(folder: Path, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, [str(folder), "--json", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("family", ["k31", "kimi-linear"])
def test_every_speed_and_every_byte_of_a_token_is_told(family: Family, tmp_path: Path) -> None:
    make_tiny(tmp_path / "model", TinyOptions(family=family))
    found = measured(tmp_path / "model", *SMALL)
    assert found["prefill_tokens_per_s"] > 0 and 0 < found["first_token_s"] <= found["first_run_s"]
    assert [each["batch"] for each in found["decoding"]] == [1, 3]
    alone, together = found["decoding"]
    # All weights are read once in a step, whatever the batch; each sequence has rows and a state of its own.
    assert together["weight_bytes"] * 3 == pytest.approx(alone["weight_bytes"])
    assert together["cache_bytes"] == alone["cache_bytes"] > 0
    # Two of eight experts for a token, of the four layers that have any; three tokens share some.
    expert = 3 * 32 * 32 * 17 // 32 if family == "k31" else 3 * 32 * 64 * 2
    assert alone["expert_bytes"] == 4 * 2 * expert
    assert 4 * 2 * expert / 3 <= together["expert_bytes"] <= 4 * 2 * expert
    # So little is in the caches of the processor: no share of the memory's speed is claimed.
    assert alone["memory_share"] is None and together["tokens_per_s"] > 0
    assert found["experts"] == {**found["experts"], "streamed": False, "misses": 0, "bytes_read": 0}


def test_the_memory_is_measured_where_a_token_reads_more_than_the_caches_hold(tmp_path: Path) -> None:
    make_tiny(tmp_path / "model", TinyOptions())
    runner = load_runner(tmp_path / "model", LoadOptions(cache_bytes=1 << 20))
    options = BenchOptions(prompt=8, decode=2, batch=2, repeat=1, small=1, read_bytes=1)
    report = bench(runner, options)
    runner.close()
    if report.variant == "numpy":
        assert report.read_speed is None
        return
    assert report.read_speed is not None
    for each in report.decoding:
        assert each.memory_share == pytest.approx(
            each.bytes_per_token * each.tokens_per_s / report.read_speed
        )


def test_weights_that_every_token_reads_are_all_but_the_table_and_the_experts(tmp_path: Path) -> None:
    parameters = make_tiny(tmp_path / "model", TinyOptions(dtype="F32", packed=False))
    runner = load_runner(tmp_path / "model", LoadOptions(cache_bytes=1 << 20))
    table = runner.model.embedding.size
    experts = 4 * 8 * 3 * 32 * 32
    read = weight_bytes(runner)
    runner.close()
    # The two vectors of a mix are kept as one, and A_log is padded in the file.
    assert 0.98 < read / (4 * (parameters - table - experts)) <= 1


def test_a_streamed_checkpoint_tells_what_its_expert_cache_did(tmp_path: Path) -> None:
    make_tiny(tmp_path / "model", TinyOptions())
    experts = measured(tmp_path / "model", *SMALL, "--expert-cache", "12000")["experts"]
    assert experts["streamed"] and experts["misses"] >= experts["ahead"] > 0
    assert experts["bytes_read"] >= experts["misses"] * 3 * 32 * 17


def test_what_does_not_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    make_tiny(tmp_path / "model", TinyOptions(max_context=128))
    runner = load_runner(tmp_path / "model", LoadOptions(cache_bytes=1 << 20))
    free = runner.pages_free
    with pytest.raises(UsageError, match="128"):
        bench(runner, BenchOptions(prompt=128, decode=1))
    with pytest.raises(UsageError, match="pages"):
        bench(runner, BenchOptions(prompt=100, decode=1, batch=1000))
    assert runner.pages_free == free
    runner.close()


def test_the_table_for_people_names_the_conditions(tmp_path: Path) -> None:
    make_tiny(tmp_path / "model", TinyOptions())
    shown = CliRunner().invoke(command, [str(tmp_path / "model"), *SMALL], catch_exceptions=False).output
    assert "the best of 2 runs" in shown and "3 sequences" in shown and "in the first run" in shown
