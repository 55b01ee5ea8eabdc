"""Damaged, incomplete and contradictory checkpoints: each one clear line, never a crash."""

from __future__ import annotations

import json
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from whimbrel.app.cli import main
from whimbrel.engine.kimi.config import load_config, parse_config
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.protocol import Chunk
from whimbrel.engine.kimi.safetensors import SafetensorsFile
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.sandbox.base.errors import ConfigError, ModelError, WhimbrelError

from .making import k3, kimi_linear, tensors_for, write_checkpoint, write_safetensors
from .plain_model import Array, PlainModel

TEXT = k3(2, [2])
DSA = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 3, "dsa_layers": [2]}
EXACT = LoadOptions(exact=True, cache="f32")


def weights(text: dict[str, Any] = TEXT, **options: Any) -> dict[str, Array]:
    return tensors_for(text, np.random.default_rng(0), **options)


def header_of(content: bytes) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def with_header(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated: it has 0 bytes"),
    "header cut": (struct.pack("<Q", 500) + b"{}", "truncated: its header needs 508 bytes"),
    "header of terabytes": (struct.pack("<Q", 1 << 42) + b"{}", "no safetensors file"),
    "no JSON": (with_header(b"{nope", b""), "broken header"),
    "no object": (with_header([1], b""), "broken header: it is no JSON object"),
    "nested without end": (with_header(b'{"a":' + b"[" * 100_000, b""), "broken header"),
    "data cut": (with_header({"a": ENTRY}, bytes(4)), "truncated: a ends at byte"),
    "overlap": (
        with_header({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)), "a and b overlap"
    ),
    "twice": (with_header(b'{"a":%b,"a":%b}' % ((json.dumps(ENTRY).encode(),) * 2), bytes(8)), "name a occurs twice"),
    "size": (with_header({"a": {**ENTRY, "shape": [3]}}, bytes(8)), "takes 12 bytes and has 8"),
    "dtype": (with_header({"a": {**ENTRY, "dtype": "Q3"}}, bytes(8)), "dtype Q3, which is not supported"),
    "no place": (with_header({"a": {"dtype": "F32"}}, bytes(8)), "a lacks a dtype, a shape or its place"),
    "negative": (with_header({"a": {**ENTRY, "shape": [-2], "data_offsets": [8, 0]}}, bytes(8)), "makes no sense"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_broken_file_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    content, problem = BAD_FILES[name]
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(ModelError) as failure:
        SafetensorsFile(file)
    assert problem in failure.value.message and str(file) in failure.value.message
    assert "\n" not in failure.value.one_line()


def _change_tensors(change: Callable[[dict[str, Array]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        tensors = weights()
        change(tensors)
        write_checkpoint(folder, TEXT, tensors, shards=2)

    return apply


def _second_shard(folder: Path) -> Path:
    return folder / "model-00002-of-00002.safetensors"


def _cut(folder: Path) -> None:
    content = _second_shard(folder).read_bytes()
    _second_shard(folder).write_bytes(content[:-100])


def _twice(folder: Path) -> None:
    write_safetensors(_second_shard(folder), {"language_model.model.norm.weight": np.zeros(40, np.float32),
                                              "language_model.lm_head.weight": np.zeros((48, 40), np.float32)})  # fmt: skip


def _index(content: Any) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / "model.safetensors.index.json").write_text(text)

    return apply


W1 = "model.layers.1.block_sparse_moe.experts.3.w1"
BAD_FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json cannot be read"),
    "a missing shard": (lambda f: _second_shard(f).unlink(), "model-00002-of-00002.safetensors is missing"),
    "a missing shard without an index": (
        lambda f: (_second_shard(f).unlink(), (f / "model.safetensors.index.json").unlink()),
        "shard 2 of 2 is missing",
    ),
    "a cut shard": (_cut, "truncated"),
    "a tensor in two shards": (_twice, "is in model-00001-of-00002.safetensors and in model-00002"),
    "an index of another download": (
        _index({"weight_map": {"x": "model-00001-of-00002.safetensors"}}), "says that x is in model-00001"
    ),
    "an index that leads out": (_index({"weight_map": {"x": "../a.safetensors"}}), "is no file name"),
    "an index without a map": (_index({}), "has no weight_map"),
    "an index that is no JSON": (_index("{"), "is no JSON"),
    "no weights": (lambda f: [p.unlink() for p in f.glob("model*")], "holds no safetensors file"),
    "a missing tensor": (
        _change_tensors(lambda t: t.pop("model.layers.0.self_attn.dt_bias")),
        "language_model.model.layers.0.self_attn.dt_bias is missing",
    ),
    "a wrong shape": (
        _change_tensors(lambda t: t.update({"lm_head.weight": np.zeros((48, 39), np.float32)})),
        "lm_head.weight has the shape [48, 39]; config.json asks for [48, 40]",
    ),
    "a wrong dtype": (
        _change_tensors(lambda t: t.update({"lm_head.weight": np.zeros((48, 40), np.int64)})),
        "lm_head.weight has the dtype I64",
    ),
    "an A_log that is too short": (
        _change_tensors(lambda t: t.update({"model.layers.0.self_attn.A_log": np.zeros(2, np.float32)})),
        "A_log has the shape [2]",
    ),
    "scales without codes": (
        _change_tensors(lambda t: t.pop(f"{W1}.weight_packed")), f"{W1}.weight is missing"
    ),
    "codes without scales": (
        _change_tensors(lambda t: t.pop(f"{W1}.weight_scale")), f"{W1}.weight_scale is missing"
    ),
    "codes of another width": (
        _change_tensors(lambda t: t.update({f"{W1}.weight_packed": np.zeros((32, 15), np.uint8)})),
        f"{W1}.weight_packed has the shape [32, 15]",
    ),
    "an expert that is not there": (
        _change_tensors(lambda t: [t.pop(n) for n in list(t) if ".experts.5." in n]),
        "experts.5.w1.weight is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_a_broken_folder_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, TEXT, weights(), shards=2)
    load_runner(tmp_path)
    damage, problem = BAD_FOLDERS[name]
    damage(tmp_path)
    with pytest.raises(WhimbrelError) as failure:
        load_runner(tmp_path)
    assert problem in failure.value.message
    assert failure.value.exit_code in (8, 10) and "\n" not in failure.value.one_line()


BAD_CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "a missing key": (k3(vocab_size=None), "vocab_size is missing"),
    "a number that is none": (k3(hidden_size="big"), 'hidden_size is "big"; a whole number'),
    "no layers": (k3(num_hidden_layers=0, layers=0), "num_hidden_layers is 0"),
    "a layer too many": (k3(2, [3]), "full_attn_layers names layer 3"),
    "a layer of two kinds": (k3(3, [2], {"kda_layers": [1, 2, 3]}), "layer 2 is in full_attn_layers and in kda_layers"),
    "a layer of no kind": (k3(3, [2], {"kda_layers": [1]}), "layer 3 is in neither"),
    "no layer lists": (k3(3, [2], {"kda_layers": None, "full_attn_layers": None}), "lacks full_attn_layers"),
    "another activation": (k3(hidden_act="gelu"), 'hidden_act is "gelu"; situ and silu'),
    "rotated attention": (k3(mla_use_nope=False), "mla_use_nope is false"),
    "grouped keys": (k3(num_key_value_heads=1), "num_key_value_heads differs"),
    "too few experts": (k3(num_experts_per_token=7), "fewer experts than a token asks for"),
    "odd groups": (k3(num_expert_group=4), "does not divide"),
    "another router": (k3(moe_router_activation_func="softmax"), "softmax; sigmoid is known"),
    "a positive bound": (k3(linear={"gate_lower_bound": 2.0}), "a negative number is needed"),
    "other packing": (k3(quantization_config={"format": "int-quantized"}), "int-quantized; mxfp4-pack-quantized"),
    "other groups": (
        k3(quantization_config={"config_groups": {"g": {"weights": {"group_size": 16}}}}), "groups of 16"
    ),
    "half an indexer": (k3(dsa_config={"index_n_heads": 4}), "index_head_dim is missing"),
    "an indexer given twice": (
        k3(dsa_config={"index_n_heads": 4, "n_heads": 5, "head_dim": 4, "topk": 2}), "is given twice, differently"
    ),
    "an indexer in a linear layer": (k3(dsa_config={**DSA, "dsa_layers": [1]}), "no full-attention layer"),
    "an indexer without a query latent": (k3(q_lora_rank=None, dsa_config=DSA), "no q_lora_rank"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_config_that_cannot_be_is_told_in_one_line(name: str) -> None:
    text, problem = BAD_CONFIGS[name]
    with pytest.raises(ConfigError) as failure:
        parse_config({"model_type": "kimi_k3", "text_config": text})
    assert problem in failure.value.message and "\n" not in failure.value.one_line()


@pytest.mark.parametrize("raw", [[], {"text_config": 3}, {"model_type": "llama"}, {}])
def test_a_config_of_something_else_is_refused(raw: Any) -> None:
    with pytest.raises(ConfigError):
        parse_config(raw)


@pytest.mark.parametrize("pair", ["x", "=1", "latent_norm_epz=1", "latent_norm_eps=no", "index_hadamard=3"])
def test_a_switch_that_cannot_be_set_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        parse_config({"model_type": "kimi_k3", "text_config": TEXT}, [pair])


def test_unknown_keys_are_kept_and_told() -> None:
    raw = {"model_type": "kimi_k3", "text_config": {**TEXT, "new_trick": 3}, "other": 1}
    config = parse_config(raw)
    assert config.raw["text_config"]["new_trick"] == 3
    assert any("new_trick, other" in warning for warning in config.warnings)


@pytest.mark.parametrize("where", ["text", "top"])
@pytest.mark.parametrize(
    "dsa",
    [
        {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 3, "dsa_layers": [2]},
        {"n_heads": 2, "head_dim": 8, "topk": 3, "some_list": [2]},
        {"n_heads": 2, "head_dim": 8, "top_k": 3},
    ],
)
def test_the_indexers_config_is_read_in_every_spelling_and_place(dsa: dict[str, Any], where: str) -> None:
    text = {**TEXT, "dsa_config": dsa} if where == "text" else TEXT
    raw = {"model_type": "kimi_k31", "text_config": text, **({"dsa_config": dsa} if where == "top" else {})}
    found = parse_config(raw)
    assert found.family == "k31" and found.dsa is not None
    assert (found.dsa.num_heads, found.dsa.head_dim, found.dsa.top_k, found.dsa.layers) == (2, 8, 3, {1})


def test_indexer_tensors_without_their_config_are_not_ignored(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, TEXT, weights(dsa=DSA))
    with pytest.raises(ConfigError, match=r"indexer tensors and config\.json has no dsa_config"):
        load_runner(tmp_path)


def test_only_tensors_without_a_known_use_are_told(tmp_path: Path) -> None:
    tensors = {**weights(), "model.layers.1.self_attn.rotary.inv_freq": np.zeros(3, np.float32)}
    write_checkpoint(tmp_path, TEXT, tensors)
    (warning,) = load_runner(tmp_path).warnings
    assert "layers.1.self_attn.rotary.inv_freq" in warning and "res_norm" not in warning


def _renamed(tensors: dict[str, Array], pairs: dict[str, str]) -> dict[str, Array]:
    def name_of(name: str) -> str:
        for old, new in pairs.items():
            name = name.replace(old, new)
        return name

    return {name_of(name): array for name, array in tensors.items()}


OTHER_FORMS: dict[str, Callable[[dict[str, Array]], dict[str, Array]]] = {
    "residuals in another spelling": lambda t: _renamed(
        t, {"_res_proj.weight": "_res.proj_weight", "_res_norm.weight": "_res.norm_weight"}
    ),
    "the dense layer under the experts' name": lambda t: _renamed(t, {"layers.0.mlp.": "layers.0.block_sparse_moe."}),
    "convolutions with the unit axis last": lambda t: {
        n: a.transpose(0, 2, 1).copy() if "conv1d" in n else a for n, a in t.items()
    },
    "an A_log of four axes": lambda t: {n: a[:3].reshape(1, 1, 3, 1) if "A_log" in n else a for n, a in t.items()},
    "one plain matrix among packed ones": lambda t: {
        **{n: a for n, a in t.items() if not n.startswith(f"{W1}.")},
        f"{W1}.weight": PlainModel(TEXT, t).w(W1).astype(np.float32),
    },
    "experts in reverse order": lambda t: dict(reversed(t.items())),
    "bfloat16": lambda t: {n: a.astype(ml_dtypes.bfloat16) if a.dtype == np.float32 else a for n, a in t.items()},
    "float16": lambda t: {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in t.items()},
}  # fmt: skip


@pytest.mark.parametrize("form", OTHER_FORMS)
@pytest.mark.parametrize("text", [TEXT, kimi_linear(2, [2], hidden_size=64)], ids=["K3", "Kimi-Linear"])
def test_other_forms_of_the_same_weights_give_the_numbers(
    form: str, text: dict[str, Any], tmp_path: Path
) -> None:
    stored = weights(text)
    tensors = OTHER_FORMS[form](stored)
    write_checkpoint(tmp_path, text, tensors)
    plain = PlainModel(text, tensors if form in ("bfloat16", "float16") else stored)
    runner = load_runner(tmp_path, EXACT)
    assert not runner.warnings
    tokens = np.arange(12)
    (logits,) = runner.forward([Chunk(runner.new(), tokens, "all")])
    assert logits is not None and np.abs(logits - plain.logits(tokens)).max() < 1e-3


def test_the_command_tells_a_person_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, code, problem in (
        (tmp_path / "none", 10, "cannot be read"),
        (tmp_path, 8, "no golden.safetensors"),
    ):
        if folder.exists():
            write_checkpoint(folder, TEXT, weights())
        with pytest.raises(SystemExit) as ended:
            main(["engine", "verify", str(folder)])
        assert ended.value.code == code
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert problem in line


def test_weights_that_are_not_finite_cannot_be_rounded_and_are_named(tmp_path: Path) -> None:
    tensors = weights()
    tensors["model.layers.1.self_attn.o_proj.weight"][3, 2] = np.inf
    write_checkpoint(tmp_path, TEXT, tensors)
    with pytest.raises(ModelError, match=r"layers\.1\.self_attn\.o_proj\.weight: .*not finite"):
        load_runner(tmp_path, LoadOptions(dense="int8"))


def test_a_config_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "kimi_k3", "text_config": TEXT}), encoding="utf-8-sig"
    )
    assert load_config(tmp_path).family == "k3"


def test_small_tensors_that_are_not_finite_are_named_before_anyone_asks(tmp_path: Path) -> None:
    for name in ("model.layers.1.input_layernorm.weight", "model.layers.0.self_attn.k_conv1d.weight"):
        tensors = weights()
        tensors[name].flat[0] = np.nan
        write_checkpoint(tmp_path / name, TEXT, tensors)
        with pytest.raises(ModelError, match=f"{name} holds a value that is no finite number"):
            load_runner(tmp_path / name)


@pytest.mark.parametrize("name", ["config.json", "tiktoken.model", "tokenizer_config.json", "encoding_k3.py"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tiny"
    make_tiny(folder, TinyOptions(layers=4, experts=4, hidden=32))
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(SystemExit) as ended:
        main(["engine", "info", str(folder)])
    said = capsys.readouterr().out
    # The encoder file is of use, and not needed.
    assert ended.value.code == (0 if name == "encoding_k3.py" else 4), said
    assert name == "encoding_k3.py" or name in said.partition("missing:")[2]


@pytest.mark.parametrize("command", [["engine", "tiny"], ["engine", "quantize"]])
@pytest.mark.parametrize("how", ["no folder", "too large"])
def test_what_cannot_be_written_is_told_in_one_line(
    command: list[str], how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    make_tiny(source, TinyOptions("kimi-linear", layers=4, experts=4, hidden=32))
    target = tmp_path / "target"
    if how == "no folder":
        (tmp_path / "file").write_text("")
        target = tmp_path / "file" / "target"
    paths = [str(source), str(target)] if "quantize" in command else [str(target)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if how == "too large":
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        with pytest.raises(SystemExit) as ended:
            main([*command, *paths])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert ended.value.code == 10 and str(target) in line
    assert ("make room" if how == "too large" else "cannot write") in line
    assert not list(tmp_path.rglob("*.safetensors.partial"))
