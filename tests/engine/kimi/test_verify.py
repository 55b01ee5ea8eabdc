"""`whimbrel engine verify` on golden checkpoints and on checkpoints of odd shapes."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from whimbrel.app.commands.engine_verify import command
from whimbrel.engine.kimi.switches import Switches
from whimbrel.sandbox.base.errors import ConfigError, ModelError

from .making import k3, kimi_linear, make, tensors_for, write_checkpoint

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"
DSA = {"index_n_heads": 4, "index_head_dim": 10, "index_topk": 5, "dsa_layers": [2, 5]}

SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "widths that nothing divides": (k3(), {}),
    "one linear layer": (k3(1, []), {}),
    "one full layer": (k3(1, [1]), {}),
    "all linear": (k3(4, []), {}),
    "all full": (k3(3, [1, 2, 3]), {}),
    "blocks that do not divide the layers": (k3(5, attn_res_block_size=3), {}),
    "a block for each layer": (k3(3, [2], attn_res_block_size=1), {}),
    "one block for all": (k3(3, [2], attn_res_block_size=12), {}),
    "no shared expert": (k3(3, [2], num_shared_experts=0), {}),
    "two shared experts": (k3(3, [2], num_shared_experts=2), {}),
    "every expert chosen": (k3(3, [2], num_experts_per_token=6), {}),
    "one expert": (k3(2, [2], num_experts=1, num_experts_per_token=1), {}),
    "groups of experts": (k3(3, [2], num_expert_group=3, topk_group=2), {}),
    "groups switched off": (k3(3, [2], num_expert_group=3, topk_group=2, use_grouped_topk=False), {}),
    "experts in every second layer": (k3(5, moe_layer_freq=2, first_k_dense_replace=2), {}),
    "no experts": (k3(2, [2], num_experts=None), {}),
    "weights not renormalised": (k3(3, [2], moe_renormalize=False, routed_scaling_factor=1.7), {}),
    "latent without a norm": (k3(3, [2], latent_moe_use_norm=False), {}),
    "experts on the hidden state": (k3(3, [2], routed_expert_hidden_size=None, hidden_size=64), {}),
    "no limit for the linear half": (k3(3, [2], activation_situ_linear_beta=None), {}),
    "low-rank gate": (k3(3, [2], linear={"use_full_rank_gate": False}), {}),
    "no bound": (k3(3, [2], linear={"gate_lower_bound": None}), {}),
    "convolution over three": (k3(3, [2], linear={"short_conv_kernel_size": 3}), {}),
    "no output gate": (k3(3, [2], mla_use_output_gate=False), {}),
    "no query latent": (k3(3, [2], q_lora_rank=None), {}),
    "tied embeddings": (k3(2, [2], tie_word_embeddings=True), {}),
    "plain experts in three files": (k3(3, [2], moe_intermediate_size=20), {"packed": False, "shards": 3}),
    "sparse attention": (k3(), {"dsa": DSA}),
    "more positions than the context": (k3(), {"dsa": {**DSA, "index_topk": 300}}),
    "sparse attention in one layer": (k3(), {"dsa": {**DSA, "dsa_layers": [5]}}),
    "Kimi-Linear": (kimi_linear(), {"packed": False}),
    "Kimi-Linear with packed experts": (kimi_linear(hidden_size=64), {}),
    "over several pages": (k3(3, [2]), {"tokens": 140}),
}  # fmt: skip


def verify(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(command, [str(folder), "--json", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("name", ["k31-tiny", "kimi-linear-tiny"])
@pytest.mark.parametrize("options", [(), ("--expert-cache", "60000")])
def test_golden_checkpoints_are_reproduced_with_margin(name: str, options: tuple[str, ...]) -> None:
    code, report = verify(GOLDEN / name, *options)
    assert code == 0 and report["ok"]
    worst = {n["name"]: n["absolute"] for n in report["numbers"]}
    assert worst["logits"] < 1e-3 and worst["decode_logits"] < 1e-3
    assert all(s["ok"] for s in report["selections"])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_checkpoint_of_any_shape_gives_the_numbers_of_the_plain_model(shape: str, tmp_path: Path) -> None:
    text, options = SHAPES[shape]
    make(tmp_path, text, **options)
    code, report = verify(tmp_path)
    assert code == 0, [n for n in report["numbers"] if not n["ok"]] + [
        s for s in report["selections"] if not s["ok"]
    ]
    assert len(report["numbers"]) == 2 + 2 * text["num_hidden_layers"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("latent_norm_eps", 0.01), ("index_norm_eps", 0.3), ("index_norm_bias", False), ("index_rope_dim", 4)],
)
def test_a_switch_changes_the_numbers_as_the_plain_model_says(key: str, value: Any, tmp_path: Path) -> None:
    make(tmp_path, k3(), dsa=DSA, switches={key: value})
    assert verify(tmp_path)[0] == 4
    assert verify(tmp_path, "--set", f"{key}={json.dumps(value)}")[0] == 0


def test_layers_may_share_the_selection_of_the_indexer_before_them(tmp_path: Path) -> None:
    make(tmp_path, k3(), dsa=DSA, indexers=[2])
    assert verify(tmp_path, "--set", "index_share=true")[0] == 0
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert isinstance(result.exception, ModelError) and "indexer.wq_b.weight is missing" in str(
        result.exception
    )
    late = tensors_for(k3(), np.random.default_rng(0), dsa={**DSA, "dsa_layers": [5]})
    write_checkpoint(tmp_path, k3(), late, dsa=DSA)
    result = CliRunner().invoke(command, [str(tmp_path), "--set", "index_share=true"])
    assert isinstance(result.exception, ConfigError) and "none before it to share" in str(result.exception)


def test_a_hadamard_rotation_of_the_indexer_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path, k3(), dsa={**DSA, "index_head_dim": 16})
    assert verify(tmp_path, "--set", "index_hadamard=true")[0] == 0


@pytest.mark.parametrize("options", [("--fast",), ("--dense", "int8")])
def test_rounding_costs_little_where_nothing_amplifies_it(options: tuple[str, ...]) -> None:
    report = verify(GOLDEN / "kimi-linear-tiny", *options)[1]
    assert next(n for n in report["numbers"] if n["name"] == "layers.0.attn_out")["relative"] < 0.03


EIGHT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
"""What rows of eight bits are made for, and all releases have."""


@pytest.mark.parametrize(("kind", "most"), [("bf16", 0.01), ("fp8", 0.06)])
def test_rounded_cached_rows_cost_what_their_mantissa_says(kind: str, most: float, tmp_path: Path) -> None:
    make(tmp_path, k3(**EIGHT), dsa=DSA, tokens=70)
    code, report = verify(tmp_path, "--cache", kind)
    found = {n["name"]: n for n in report["numbers"]}
    # The first layer that reads the cache is the second one; those before it are exact, as in every mode.
    assert found["layers.0.mlp_out"]["tolerance"] < 1e-3 and found["layers.0.mlp_out"]["ok"]
    assert most / 20 < found["layers.1.attn_out"]["relative"] < most
    # What comes after is told and not judged, and so is the choice between near ties.
    assert found["layers.1.mlp_out"]["tolerance"] is None and found["logits"]["tolerance"] is None
    assert code == 0
    assert verify(tmp_path, "--cache", "f32")[0] == 0


def test_a_wrong_model_is_not_within_tolerance_with_rounded_rows_either(tmp_path: Path) -> None:
    make(tmp_path, k3(**EIGHT), switches={"latent_norm_eps": 0.5})
    assert verify(tmp_path, "--cache", "fp8")[0] == 4


def test_rows_of_eight_bits_are_refused_where_they_cannot_hold_the_models(tmp_path: Path) -> None:
    make(tmp_path, k3(3, [2]))
    result = CliRunner().invoke(command, [str(tmp_path), "--cache", "fp8"])
    assert isinstance(result.exception, ConfigError) and "512 + 64" in str(result.exception)


def test_numbers_that_are_not_within_tolerance_are_named_and_end_with_4(tmp_path: Path) -> None:
    plain = make(tmp_path, k3(2, [2]))
    golden = np.float32(plain.out["layers.1.attn_out"])
    file = tmp_path / "golden.safetensors"
    at = file.read_bytes().index(golden.tobytes())
    content = bytearray(file.read_bytes())
    content[at : at + 4] = np.float32(golden.flat[0] + 0.01).tobytes()
    file.write_bytes(content)
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert result.exit_code == 4
    (line,) = [line for line in result.stdout.splitlines() if "NOT WITHIN" in line]
    assert line.startswith("layers.1.attn_out")


def test_every_switch_is_documented_with_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs/engine-checkpoints.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([\w.-]+)`? \|", page, re.M))
    given = {f.name: "rms_norm_eps" if f.default is None else json.dumps(f.default) for f in fields(Switches)}
    assert rows.keys() == given.keys()
    for name, default in given.items():
        assert rows[name] == default or float(rows[name]) == float(default)
