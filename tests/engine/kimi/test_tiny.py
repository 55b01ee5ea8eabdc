"""Tiny checkpoints: the released layout, the same for the same seed, and the model runs them."""

from __future__ import annotations

import hashlib
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from whimbrel.app.cli import cli
from whimbrel.engine.cluster.licence import licence_of
from whimbrel.engine.kimi.chat.format import ChatFormat
from whimbrel.engine.kimi.checkpoint import Checkpoint
from whimbrel.engine.kimi.config import load_config, parse_config
from whimbrel.engine.kimi.inspect import inspect_checkpoint
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.pool import page_bytes
from whimbrel.engine.kimi.protocol import Chunk
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny, tiny_config
from whimbrel.sandbox.base.errors import UsageError

FAMILIES = ("k3", "k31", "kimi-linear")


@pytest.fixture(scope="module")
def tinies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tinies")
    for family in FAMILIES:
        make_tiny(folder / family, TinyOptions(family=family, vision=family == "k3"))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tiny_checkpoint_is_complete_and_nothing_in_it_is_strange(tinies, family):
    found = inspect_checkpoint(tinies / family)
    assert (found.missing, found.notes) == ([], [])
    assert found.config is not None and found.config.family == family
    assert found.tokens == found.config.vocab_size
    assert found.files == 2 and found.packed == (family != "kimi-linear")
    assert found.licence is not None and not found.licence.needs_acceptance


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_takes_a_rendered_conversation(tinies, family):
    chat = ChatFormat.load(tinies / family, vocab_size=load_config(tinies / family).vocab_size)
    ids = chat.render([{"role": "user", "content": "hello"}], effort="low").ids
    runner = load_runner(tinies / family, LoadOptions())
    sequence = runner.new()
    (logits,) = runner.forward([Chunk(sequence, np.array(ids, dtype=np.int64))])
    assert logits is not None and logits.shape == (1, runner.vocab_size)
    assert np.isfinite(logits).all() and 0.1 < float(logits.std()) < 20
    sequence.close()


def test_the_tensors_of_an_expert_lie_side_by_side(tinies):
    checkpoint = Checkpoint(tinies / "k3")
    for file in checkpoint.files:
        names = [each.name for each in sorted(file.entries.values(), key=lambda each: each.offset)]
        experts = [
            name.split(".experts.")[0] + name.split(".experts.")[1].split(".")[0]
            for name in names
            if ".experts." in name
        ]
        changes = sum(left != right for left, right in itertools.pairwise(experts)) + bool(experts)
        assert changes == len(set(experts)) and all(experts.count(each) == 6 for each in experts)
    checkpoint.close()


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_the_same_seed_makes_the_same_files_and_another_seed_others(tmp_path):
    options = {"layers": 4, "experts": 4}
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        make_tiny(tmp_path / name, TinyOptions(seed=seed, **options))
    first, again, other = (digests(tmp_path / name) for name in "abc")
    assert first == again
    weights = {name for name in first if name.endswith(".safetensors")}
    assert all(first[name] != other[name] for name in weights)
    assert {name for name in first if first[name] == other[name]} == set(first) - weights


def test_the_command_makes_one_and_info_tells_what_it_is(tmp_path):
    where = str(tmp_path / "made")
    options = [
        "--family",
        "k31",
        "--layers",
        "4",
        "--experts",
        "4",
        "--shards",
        "3",
        "--dtype",
        "f32",
        "--vision",
    ]
    made = CliRunner().invoke(cli, ["engine", "tiny", where, *options])
    assert made.exit_code == 0 and "random parameters" in made.output
    assert len(list((tmp_path / "made").glob("*.safetensors"))) == 3
    shown = CliRunner().invoke(cli, ["engine", "info", where])
    assert shown.exit_code == 0
    assert "k31: 4 layers (3 linear, 1 full attention)" in shown.output and "free to load" in shown.output
    data = json.loads(CliRunner().invoke(cli, ["engine", "info", where, "--json"]).output)
    assert data["missing"] == [] and set(data["bytes"]) == {"F32", "U8"}


def test_info_says_whether_a_template_holds_the_sentences(tmp_path):
    folder = tmp_path / "made"
    make_tiny(folder, TinyOptions(layers=4, experts=4))
    other = tmp_path / "other.jinja"
    other.write_text("{{ messages }}")
    shown = CliRunner().invoke(cli, ["engine", "info", str(folder), "--chat-template", str(other)])
    assert shown.exit_code == 0 and f"{other} does not hold" in shown.output
    (folder / "encoding_k3.py").rename(tmp_path / "mine.py")
    shown = CliRunner().invoke(
        cli, ["engine", "info", str(folder), "--chat-template", str(tmp_path / "mine.py")]
    )
    assert "own wording" not in shown.output


def test_info_names_everything_that_is_missing(tmp_path):
    folder = tmp_path / "made"
    make_tiny(folder, TinyOptions(layers=4, experts=4))
    (folder / "tiktoken.model").unlink()
    (folder / "model-00002-of-000002.safetensors").unlink()
    shown = CliRunner().invoke(cli, ["engine", "info", str(folder)])
    assert shown.exit_code == 4
    assert "missing: " in shown.output and "tiktoken.model" in shown.output and "00002" in shown.output
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["hidden_size"] = 96
    whole = tmp_path / "whole"
    make_tiny(whole, TinyOptions(layers=4, experts=4))
    (whole / "config.json").write_text(json.dumps(config))
    assert any("another size" in line for line in inspect_checkpoint(whole).missing)
    (whole / "config.json").write_text("{")
    assert any("no JSON" in line for line in inspect_checkpoint(whole).missing)


@pytest.mark.parametrize(
    "options", [{"hidden": 48}, {"layers": 3}, {"family": "kimi-linear", "vision": True}]
)
def test_what_cannot_be_made_is_refused(options):
    with pytest.raises(UsageError):
        TinyOptions(**options)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        make_tiny(tmp_path, TinyOptions())
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert licence_of(tmp_path).kind == "none"


def test_a_wide_one_has_the_cached_rows_of_the_release():
    config = parse_config(tiny_config(TinyOptions(family="k31", layers=4, wide=True), 512))
    assert config.mla is not None and config.mla.num_heads == 96
    assert page_bytes(config, "bf16") == 64 * (1152 + 256)
    assert page_bytes(config, "fp8") == 64 * (656 + 132)
