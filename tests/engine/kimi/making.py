"""Random tiny checkpoints of any shape, and golden numbers for them from the plain model."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .plain_model import Array, PlainModel

K3: dict[str, Any] = {
    "model_type": "kimi_linear", "vocab_size": 48, "hidden_size": 40, "intermediate_size": 52,
    "num_hidden_layers": 5, "num_attention_heads": 3, "num_key_value_heads": 3, "hidden_act": "situ",
    "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0, "rms_norm_eps": 1e-5, "q_lora_rank": 20,
    "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 6, "v_head_dim": 10, "mla_use_nope": True,
    "mla_use_output_gate": True, "attn_res_block_size": 2, "num_experts": 6, "num_experts_per_token": 2,
    "num_shared_experts": 1, "moe_intermediate_size": 32, "routed_expert_hidden_size": 32,
    "latent_moe_use_norm": True, "first_k_dense_replace": 1, "moe_layer_freq": 1, "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid", "routed_scaling_factor": 1.0, "use_grouped_topk": True,
    "num_expert_group": 1, "topk_group": 1, "topk_method": "noaux_tc", "tie_word_embeddings": False,
    "max_position_embeddings": 512,
    "linear_attn_config": {
        "full_attn_layers": [2, 5], "kda_layers": [1, 3, 4], "gate_lower_bound": -5.0, "head_dim": 14,
        "num_heads": 3, "short_conv_kernel_size": 4, "use_full_rank_gate": True,
    },
}  # fmt: skip
LINEAR_ABSENT = ("attn_res_block_size", "routed_expert_hidden_size", "latent_moe_use_norm", "mla_use_output_gate",
                 "q_lora_rank", "activation_situ_beta", "activation_situ_linear_beta")  # fmt: skip
NAMES = {np.dtype(np.float32): "F32", np.dtype(np.uint8): "U8", np.dtype(np.int64): "I64",
         np.dtype(np.float16): "F16", np.dtype(ml_dtypes.bfloat16): "BF16"}  # fmt: skip


def k3(layers: int | None = None, full: list[int] | None = None, linear: Mapping[str, Any] | None = None,
       **changes: Any) -> dict[str, Any]:  # fmt: skip
    """A K3 text config with other values; a value of None takes the key out."""
    text = {**K3, **changes}
    count = layers or text["num_hidden_layers"]
    full = text["linear_attn_config"]["full_attn_layers"] if full is None else full
    rest = [n for n in range(1, count + 1) if n not in full]
    text["num_hidden_layers"] = count
    text["linear_attn_config"] = {
        **text["linear_attn_config"], "full_attn_layers": full, "kda_layers": rest, **(linear or {})
    }  # fmt: skip
    drop = text["linear_attn_config"]
    text["linear_attn_config"] = {k: v for k, v in drop.items() if v is not None}
    return {k: v for k, v in text.items() if v is not None}


def kimi_linear(layers: int | None = None, full: list[int] | None = None, **changes: Any) -> dict[str, Any]:
    """A flat Kimi-Linear config."""
    absent: dict[str, Any] = dict.fromkeys(LINEAR_ABSENT)
    text = k3(layers, full, {"gate_lower_bound": None, "use_full_rank_gate": None},
              **{**absent, "hidden_act": "silu", "routed_scaling_factor": 2.446, **changes})  # fmt: skip
    return {**text, "architectures": ["KimiLinearForCausalLM"], "q_lora_rank": None}


def tensors_for(
    text: dict[str, Any],
    rng: np.random.Generator,
    *,
    packed: bool = True,
    dsa: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """Random tensors for a text config, by the names of the text model."""
    made: dict[str, Array] = {}
    d, linear = text["hidden_size"], text["linear_attn_config"]

    def matrix(name: str, rows: int, columns: int) -> None:
        made[f"{name}.weight"] = (rng.standard_normal((rows, columns)) * 1.4 / np.sqrt(columns)).astype(
            np.float32
        )

    def norm(name: str, size: int, *, around: float = 1.0) -> None:
        made[f"{name}.weight"] = (around + 0.2 * rng.standard_normal(size)).astype(np.float32)

    def mxfp4(name: str, rows: int, columns: int) -> None:
        if not packed:
            matrix(name, rows, columns)
            return
        made[f"{name}.weight_packed"] = rng.integers(0, 256, (rows, columns // 2), dtype=np.uint8)
        made[f"{name}.weight_scale"] = rng.integers(122, 126, (rows, columns // 32), dtype=np.uint8)

    def mlp(base: str, inner: int) -> None:
        matrix(f"{base}.gate_proj", inner, d)
        matrix(f"{base}.up_proj", inner, d)
        matrix(f"{base}.down_proj", d, inner)

    def mix(base: str) -> None:
        norm(f"{base}_norm", d)
        made[f"{base}_proj.weight"] = (rng.standard_normal((1, d)) * 0.3).astype(np.float32)

    def kda(base: str) -> None:
        heads, dim = linear["num_heads"], linear["head_dim"]
        width, taps = heads * dim, linear["short_conv_kernel_size"]
        for n in "qkv":
            matrix(f"{base}.{n}_proj", width, d)
            made[f"{base}.{n}_conv1d.weight"] = (rng.standard_normal((width, 1, taps)) * 0.6).astype(
                np.float32
            )
        matrix(f"{base}.f_a_proj", dim, d)
        matrix(f"{base}.f_b_proj", width, dim)
        matrix(f"{base}.b_proj", heads, d)
        rate = rng.uniform(-1, 1, heads).astype(np.float32)
        bounded = linear.get("gate_lower_bound") is not None
        made[f"{base}.A_log"] = (
            np.pad(rate, (0, max(0, dim - heads))) if bounded else rate.reshape(1, 1, -1, 1)
        )
        made[f"{base}.dt_bias"] = rng.standard_normal(width).astype(np.float32)
        norm(f"{base}.o_norm", dim)
        if linear.get("use_full_rank_gate"):
            matrix(f"{base}.g_proj", width, d)
        else:
            matrix(f"{base}.g_a_proj", dim, d)
            matrix(f"{base}.g_b_proj", width, dim)
        matrix(f"{base}.o_proj", d, width)

    def mla(base: str) -> None:
        heads, nope, pe, v = (
            text[k] for k in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        )
        rank, latent = text.get("q_lora_rank"), text["kv_lora_rank"]
        if rank:
            matrix(f"{base}.q_a_proj", rank, d)
            norm(f"{base}.q_a_layernorm", rank)
        matrix(f"{base}.q_b_proj" if rank else f"{base}.q_proj", heads * (nope + pe), rank or d)
        matrix(f"{base}.kv_a_proj_with_mqa", latent + pe, d)
        norm(f"{base}.kv_a_layernorm", latent)
        matrix(f"{base}.kv_b_proj", heads * (nope + v), latent)
        if text.get("mla_use_output_gate"):
            matrix(f"{base}.g_proj", heads * v, d)
        matrix(f"{base}.o_proj", d, heads * v)

    def indexer(base: str, of: Mapping[str, Any]) -> None:
        heads, dim = of["index_n_heads"], of["index_head_dim"]
        matrix(f"{base}.wq_b", heads * dim, text["q_lora_rank"])
        matrix(f"{base}.wk", dim, d)
        matrix(f"{base}.weights_proj", heads, d)
        norm(f"{base}.k_norm", dim)
        made[f"{base}.k_norm.bias"] = (0.3 * rng.standard_normal(dim)).astype(np.float32)

    def moe(base: str) -> None:
        latent, inner, experts = (
            text.get("routed_expert_hidden_size"),
            text["moe_intermediate_size"],
            text["num_experts"],
        )
        matrix(f"{base}.gate", experts, d)
        made[f"{base}.gate.e_score_correction_bias"] = (0.1 * rng.standard_normal(experts)).astype(np.float32)
        if latent:
            matrix(f"{base}.routed_expert_down_proj", latent, d)
            matrix(f"{base}.routed_expert_up_proj", d, latent)
            if text.get("latent_moe_use_norm", True):
                norm(f"{base}.routed_expert_norm", latent)
        if text.get("num_shared_experts"):
            mlp(f"{base}.shared_experts", text["num_shared_experts"] * inner)
        for e in range(experts):
            for name, rows, columns in (
                ("w1", inner, latent or d),
                ("w2", latent or d, inner),
                ("w3", inner, latent or d),
            ):
                mxfp4(f"{base}.experts.{e}.{name}", rows, columns)

    matrix("model.embed_tokens", text["vocab_size"], d)
    made["model.embed_tokens.weight"] *= np.float32(np.sqrt(d) / 1.4)
    if not text.get("tie_word_embeddings"):
        matrix("lm_head", text["vocab_size"], d)
    norm("model.norm", d)
    if text.get("attn_res_block_size"):
        mix("model.output_attn_res")
    for n in range(text["num_hidden_layers"]):
        base = f"model.layers.{n}"
        norm(f"{base}.input_layernorm", d)
        norm(f"{base}.post_attention_layernorm", d)
        if text.get("attn_res_block_size"):
            mix(f"{base}.self_attention_res")
            mix(f"{base}.mlp_res")
        if n + 1 in linear["full_attn_layers"]:
            mla(f"{base}.self_attn")
            if dsa and n + 1 in dsa["dsa_layers"]:
                indexer(f"{base}.self_attn.indexer", dsa)
        else:
            kda(f"{base}.self_attn")
        first, every = text.get("first_k_dense_replace", 0), text.get("moe_layer_freq", 1)
        if text.get("num_experts") and n >= first and n % every == 0:
            moe(f"{base}.block_sparse_moe")
        else:
            mlp(f"{base}.mlp", text["intermediate_size"])
    return made


def write_safetensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """One file in the order of `tensors`."""
    header: dict[str, Any] = {}
    place = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": array.shape,
            "data_offsets": [place, place + array.nbytes],
        }
        place += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def write_checkpoint(
    folder: Path, text: dict[str, Any], tensors: Mapping[str, Array], *, dsa: Mapping[str, Any] | None = None,
    shards: int = 1,
) -> Path:  # fmt: skip
    """config.json and weights in the released layout (K3), or flat (Kimi-Linear)."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = "architectures" in text
    prefix = "" if flat else "language_model."
    config = dict(text)
    if not flat:
        model = (
            ("KimiK31ForConditionalGeneration", "kimi_k31")
            if dsa
            else ("KimiK3ForConditionalGeneration", "kimi_k3")
        )
        config = {
            "architectures": [model[0]],
            "model_type": model[1],
            "text_config": {**text, **({"dsa_config": dsa} if dsa else {})},
        }
    (folder / "config.json").write_text(json.dumps(config))
    named = {prefix + name: array for name, array in tensors.items()}
    if shards == 1:
        write_safetensors(folder / "model.safetensors", named)
        return folder
    index: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(named.items())[number * len(named) // shards : (number + 1) * len(named) // shards])
        write_safetensors(folder / file, part)
        index.update(dict.fromkeys(part, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


def make(
    folder: Path, text: dict[str, Any], *, seed: int = 0, tokens: int = 24, packed: bool = True, shards: int = 1,
    dsa: Mapping[str, Any] | None = None, switches: Mapping[str, Any] | None = None, indexers: list[int] | None = None,
) -> PlainModel:  # fmt: skip
    """A checkpoint with golden numbers beside it; gives the plain model that made them.

    Args:
        indexers: layers (from 1) that have indexer tensors; None: all of `dsa_layers`.
    """
    rng = np.random.default_rng(seed)
    owned = dsa if indexers is None or dsa is None else {**dsa, "dsa_layers": indexers}
    tensors = tensors_for(text, rng, packed=packed, dsa=owned)
    write_checkpoint(folder, text, tensors, dsa=dsa, shards=shards)
    plain = PlainModel(text, tensors, dict(dsa) if dsa else None, dict(switches or {}))
    ids = rng.integers(0, text["vocab_size"], tokens)
    logits = plain.logits(ids)
    start = tokens * 2 // 3
    golden = {"decode_from": np.array(start, np.int64), "input_ids": ids.reshape(1, -1),
              "logits": logits[None].astype(np.float32), "decode_logits": logits[None, start - 1 :].astype(np.float32),
              **{name: rows[None].astype(np.float32) for name, rows in plain.out.items()},
              **{f"layers.{n}.topk_last": rows[-1].reshape(1, -1) for n, rows in plain.chosen.items()}}  # fmt: skip
    write_safetensors(folder / "golden.safetensors", golden)
    return plain
