"""Quantising a checkpoint: numbers, layout, interruption, full disks, odd sources."""

from __future__ import annotations

import errno
import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from whimbrel.app.cli import cli
from whimbrel.engine.kimi import quantize, safetensors_writer
from whimbrel.engine.kimi.checkpoint import Checkpoint
from whimbrel.engine.kimi.inspect import inspect_checkpoint
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.protocol import Chunk
from whimbrel.engine.kimi.quantize import REPORT, quantise_checkpoint
from whimbrel.engine.kimi.safetensors_writer import DiskFull, Planned, write_file
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.kernels.mxfp4 import dequantise
from whimbrel.sandbox.base.errors import ModelError, UsageError

SHARD = 60_000


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "model"
    make_tiny(folder, TinyOptions(family="kimi-linear", layers=4, experts=4))
    return folder


@pytest.fixture(scope="module")
def done(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("packed") / "model"
    return target, quantise_checkpoint(source, target, shard_bytes=SHARD, threads=2)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_experts_become_mxfp4_and_everything_else_stays_bit_for_bit(source, done):
    target, outcome = done
    plain, packed = Checkpoint(source), Checkpoint(target)
    entries = {name: file for file in packed.files for name in file.entries}
    matrices = 0
    for file in plain.files:
        for name in file.entries:
            before = file.read(name)
            if ".experts." not in name:
                assert entries[name].read(name).tobytes() == before.tobytes()
                continue
            matrices += 1
            codes, scales = (entries[f"{name}_{end}"].read(f"{name}_{end}") for end in ("packed", "scale"))
            weights = before.astype(np.float32)
            error = np.linalg.norm(dequantise(codes, scales) - weights) / np.linalg.norm(weights)
            recorded = next(each for each in outcome.errors if each.name == name)
            assert 0.05 < error < 0.2 and abs(recorded.rms - error) < 1e-3
    assert matrices == len(outcome.errors) == 3 * 4 * 3
    assert outcome.worst is not None and outcome.worst.rms >= outcome.mean_rms > 0
    assert outcome.shards == len(packed.files) > 2


def test_the_result_is_a_complete_checkpoint_that_runs(done, source):
    target, _ = done
    found = inspect_checkpoint(target)
    assert (found.missing, found.packed) == ([], True)
    ids = np.arange(12, dtype=np.int64)
    rows = []
    for folder in (source, target):
        runner = load_runner(folder, LoadOptions(exact=True))
        sequence = runner.new()
        (logits,) = runner.forward([Chunk(sequence, ids)])
        rows.append(logits[0])
        sequence.close()
    apart = np.linalg.norm(rows[0] - rows[1]) / np.linalg.norm(rows[0])
    assert 0 < apart < 0.3


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_files(source, done, tmp_path, monkeypatch):
    target = tmp_path / "again"
    real, written = quantize.write_file, []

    def dies(path, tensors, data):
        if len(written) == 2:
            path.with_name(path.name + ".partial").write_bytes(b"half")
            raise KeyboardInterrupt
        written.append(path.name)
        real(path, tensors, data)

    monkeypatch.setattr(quantize, "write_file", dies)
    with pytest.raises(KeyboardInterrupt):
        quantise_checkpoint(source, target, shard_bytes=SHARD)
    assert not (target / "config.json").exists() and not (target / "model.safetensors.index.json").exists()
    # What a kill leaves at the end of the record is half a line.
    with (target / REPORT).open("ab") as file:
        file.write(b'{"tensor": "hal')
    monkeypatch.undo()
    outcome = quantise_checkpoint(source, target, shard_bytes=SHARD)
    assert outcome.resumed == 2
    whole, resumed = contents(done[0]), contents(target)
    assert set(whole) | {name for name in resumed if name.endswith(".partial")} == set(resumed)
    assert all(resumed[name] == whole[name] for name in whole)
    assert quantise_checkpoint(source, target, shard_bytes=SHARD).resumed == outcome.shards


def test_a_shard_that_was_damaged_since_is_made_again(source, done, tmp_path):
    target = tmp_path / "again"
    shutil.copytree(done[0], target)
    shard = next(target.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    outcome = quantise_checkpoint(source, target, shard_bytes=SHARD)
    assert outcome.resumed == outcome.shards - 1
    assert contents(target) | {REPORT: b""} == contents(done[0]) | {REPORT: b""}


def test_a_disk_that_fills_up_leaves_no_half_file_and_can_be_gone_on_with(source, tmp_path, monkeypatch):
    target = tmp_path / "full"
    real, calls = safetensors_writer._raw, []

    def full(array):
        calls.append(1)
        if len(calls) == 60:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(array)

    monkeypatch.setattr(safetensors_writer, "_raw", full)
    with pytest.raises(DiskFull, match="no room"):
        quantise_checkpoint(source, target, shard_bytes=SHARD)
    assert not list(target.glob("*.partial")) and not (target / "config.json").exists()
    monkeypatch.undo()
    assert quantise_checkpoint(source, target, shard_bytes=SHARD).resumed >= 1


def test_too_little_room_is_said_before_anything_is_done(source, tmp_path, monkeypatch):
    monkeypatch.setattr(quantize.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(DiskFull, match="free"):
        quantise_checkpoint(source, tmp_path / "x", shard_bytes=SHARD)
    assert not list((tmp_path / "x").glob("*.safetensors"))


def test_another_conversion_in_the_folder_is_left_alone(source, done, tmp_path):
    target, _ = done
    with pytest.raises(UsageError, match="another run"):
        quantise_checkpoint(source, target, shard_bytes=2 * SHARD)
    (tmp_path / "precious").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        quantise_checkpoint(source, tmp_path)
    with pytest.raises(UsageError, match="onto itself"):
        quantise_checkpoint(source, source)
    with pytest.raises(UsageError, match="already"):
        quantise_checkpoint(target, tmp_path / "twice")


def test_a_weight_that_is_no_number_is_named(source, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(source, broken)
    checkpoint = Checkpoint(broken)
    file, entry = next(
        (file, entry)
        for file in checkpoint.files
        for entry in file.entries.values()
        if ".experts.2.w3." in entry.name
    )
    with file.path.open("r+b") as raw:
        raw.seek(entry.offset)
        raw.write(b"\xc0\x7f")  # not a number, in bfloat16
    checkpoint.close()
    with pytest.raises(ModelError, match=r"experts\.2\.w3"):
        quantise_checkpoint(broken, tmp_path / "out")


def test_an_array_that_is_not_what_was_planned_is_never_written(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError, match="is not F32"):
        write_file(path, [Planned("a", "F32", (2,))], lambda _: np.zeros(3, np.float32))
    assert list(tmp_path.iterdir()) == []


def test_the_command_tells_the_error_of_every_matrix(source, tmp_path):
    target = tmp_path / "out"
    result = CliRunner().invoke(cli, ["engine", "quantize", str(source), str(target), "--quiet"])
    assert result.exit_code == 0, result.output
    assert "36 matrices rounded" in result.output
    lines = [json.loads(line) for line in (target / REPORT).read_text().splitlines()]
    assert sum("tensor" in line for line in lines) == 36
