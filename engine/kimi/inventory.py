"""Every tensor of a checkpoint by the config alone: name, shape, kind, how it is stored.

Standard library only: a planner on a laptop needs no numerics. Names and shapes are those of the released
layout; a tensor that exists once per expert appears once, with its number of copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal, cast

from ...sandbox.base.errors import ConfigError
from .config import KimiConfig

Part = Literal[
    "embedding", "head", "norms and mixes", "linear attention", "latent attention", "indexer", "dense MLP",
    "router", "latent projections", "shared experts", "routed experts", "vision",
]  # fmt: skip
MXFP4_GROUP: Final = 32


@dataclass(frozen=True)
class Tensor:
    """One tensor, or one of ``copies`` equal ones (``{e}`` in the name is the expert's number).

    Args:
        name: as in the file, with its ending (``.weight`` also where the release is packed).
        columns_sharded: None: every GPU of a tensor-parallel group holds all of it.
        full: stored in float32 where the rest is bfloat16.
        layer: counted from 0; None outside the layers.
    """

    name: str
    shape: tuple[int, ...]
    part: Part
    layer: int | None = None
    copies: int = 1
    sharded: bool = False
    full: bool = False

    @property
    def elements(self) -> int:
        """Of all copies together."""
        return prod(self.shape) * self.copies

    def stored_bytes(self, *, packed: bool) -> int:
        """In the release: MXFP4 for routed experts where ``packed``, else bfloat16 or float32."""
        if packed and self.part == "routed experts":
            return self.elements // 2 + self.elements // MXFP4_GROUP
        return self.elements * (4 if self.full else 2)


def is_packed(config: KimiConfig) -> bool:
    """Whether the release holds its routed experts in MXFP4."""
    text = config.raw.get("text_config", config.raw)
    return bool(
        cast(Mapping[str, Any], text).get("quantization_config") or config.raw.get("quantization_config")
    )


def text_tensors(config: KimiConfig) -> Iterator[Tensor]:
    """The text model in the order of the files: layers first, then what they share."""
    prefix = prefix_of(config)
    for layer in range(config.num_layers):
        yield from layer_tensors(config, layer, prefix)
    hidden, vocab = config.hidden, config.vocab_size
    yield Tensor(f"{prefix}model.embed_tokens.weight", (vocab, hidden), "embedding", sharded=True)
    yield Tensor(f"{prefix}model.norm.weight", (hidden,), "norms and mixes")
    if config.block_size is not None:
        yield Tensor(f"{prefix}model.output_attn_res_norm.weight", (hidden,), "norms and mixes")
        yield Tensor(f"{prefix}model.output_attn_res_proj.weight", (1, hidden), "norms and mixes")
    if not config.tied:
        yield Tensor(f"{prefix}lm_head.weight", (vocab, hidden), "head", sharded=True)


def prefix_of(config: KimiConfig) -> str:
    return "language_model." if "text_config" in config.raw else ""


def layer_tensors(config: KimiConfig, layer: int, prefix: str = "") -> Iterator[Tensor]:
    """The tensors of one layer (counted from 0)."""
    at = f"{prefix}model.layers.{layer}."
    hidden = config.hidden
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config.block_size is not None:
        norms += ["self_attention_res_norm", "mlp_res_norm"]
        for name in ("self_attention_res_proj", "mlp_res_proj"):
            yield Tensor(f"{at}{name}.weight", (1, hidden), "norms and mixes", layer)
    for name in norms:
        yield Tensor(f"{at}{name}.weight", (hidden,), "norms and mixes", layer)
    if config.is_full(layer):
        yield from _latent_attention(config, layer, f"{at}self_attn.")
    else:
        yield from _linear_attention(config, layer, f"{at}self_attn.")
    if config.moe is not None and config.moe.at(layer):
        yield from _experts(config, layer, f"{at}block_sparse_moe.")
    else:
        # Kimi-Linear names its dense layer like the others.
        kind = "mlp." if config.block_size is not None else "block_sparse_moe."
        yield from _mlp(f"{at}{kind}", hidden, config.intermediate, "dense MLP", layer)


def _mlp(at: str, hidden: int, inner: int, part: Part, layer: int) -> Iterator[Tensor]:
    for name in ("gate_proj", "up_proj"):
        yield Tensor(f"{at}{name}.weight", (inner, hidden), part, layer, sharded=True)
    yield Tensor(f"{at}down_proj.weight", (hidden, inner), part, layer, sharded=True)


def _linear_attention(config: KimiConfig, layer: int, at: str) -> Iterator[Tensor]:
    kda, hidden = config.kda, config.hidden
    if kda is None:
        raise ConfigError(f"layer {layer + 1} is a linear-attention layer and the config describes none")
    part: Part = "linear attention"
    for name in ("q", "k", "v"):
        yield Tensor(f"{at}{name}_proj.weight", (kda.width, hidden), part, layer, sharded=True)
        yield Tensor(f"{at}{name}_conv1d.weight", (kda.width, 1, kda.conv_size), part, layer, sharded=True)
    if kda.full_rank_gate:
        yield Tensor(f"{at}g_proj.weight", (kda.width, hidden), part, layer, sharded=True)
    else:
        yield Tensor(f"{at}g_a_proj.weight", (kda.head_dim, hidden), part, layer)
        yield Tensor(f"{at}g_b_proj.weight", (kda.width, kda.head_dim), part, layer, sharded=True)
    yield Tensor(f"{at}f_a_proj.weight", (kda.head_dim, hidden), part, layer)
    yield Tensor(f"{at}f_b_proj.weight", (kda.width, kda.head_dim), part, layer, sharded=True)
    yield Tensor(f"{at}b_proj.weight", (kda.num_heads, hidden), part, layer, sharded=True)
    bounded = kda.gate_lower_bound is not None
    decay = (kda.head_dim,) if bounded and kda.head_dim >= kda.num_heads else (1, 1, kda.num_heads, 1)
    yield Tensor(f"{at}A_log", decay, part, layer, full=True)
    yield Tensor(f"{at}dt_bias", (kda.width,), part, layer, full=True)
    yield Tensor(f"{at}o_norm.weight", (kda.head_dim,), part, layer)
    yield Tensor(f"{at}o_proj.weight", (hidden, kda.width), part, layer, sharded=True)


def _latent_attention(config: KimiConfig, layer: int, at: str) -> Iterator[Tensor]:
    mla, hidden = config.mla, config.hidden
    if mla is None:
        raise ConfigError(f"layer {layer + 1} is a full-attention layer and the config describes none")
    part: Part = "latent attention"
    heads, query = mla.num_heads, mla.num_heads * (mla.nope_dim + mla.pe_dim)
    if mla.q_lora_rank is None:
        yield Tensor(f"{at}q_proj.weight", (query, hidden), part, layer, sharded=True)
    else:
        yield Tensor(f"{at}q_a_proj.weight", (mla.q_lora_rank, hidden), part, layer)
        yield Tensor(f"{at}q_a_layernorm.weight", (mla.q_lora_rank,), part, layer)
        yield Tensor(f"{at}q_b_proj.weight", (query, mla.q_lora_rank), part, layer, sharded=True)
    yield Tensor(f"{at}kv_a_proj_with_mqa.weight", (mla.kv_lora_rank + mla.pe_dim, hidden), part, layer)
    yield Tensor(f"{at}kv_a_layernorm.weight", (mla.kv_lora_rank,), part, layer)
    keys_and_values = heads * (mla.nope_dim + mla.v_dim)
    yield Tensor(f"{at}kv_b_proj.weight", (keys_and_values, mla.kv_lora_rank), part, layer, sharded=True)
    if mla.output_gate:
        yield Tensor(f"{at}g_proj.weight", (heads * mla.v_dim, hidden), part, layer, sharded=True)
    yield Tensor(f"{at}o_proj.weight", (hidden, heads * mla.v_dim), part, layer, sharded=True)
    dsa = config.dsa
    if dsa is not None and layer in dsa.layers and mla.q_lora_rank is not None:
        indexer = f"{at}indexer."
        yield Tensor(
            f"{indexer}wq_b.weight", (dsa.num_heads * dsa.head_dim, mla.q_lora_rank), "indexer", layer
        )
        yield Tensor(f"{indexer}wk.weight", (dsa.head_dim, hidden), "indexer", layer)
        yield Tensor(f"{indexer}weights_proj.weight", (dsa.num_heads, hidden), "indexer", layer)
        yield Tensor(f"{indexer}k_norm.weight", (dsa.head_dim,), "indexer", layer)


def _experts(config: KimiConfig, layer: int, at: str) -> Iterator[Tensor]:
    moe, hidden = config.moe, config.hidden
    assert moe is not None
    yield Tensor(f"{at}gate.weight", (moe.num_experts, hidden), "router", layer)
    yield Tensor(f"{at}gate.e_score_correction_bias", (moe.num_experts,), "router", layer, full=True)
    width = hidden
    if moe.latent is not None:
        width, part = moe.latent, cast(Part, "latent projections")
        yield Tensor(f"{at}routed_expert_down_proj.weight", (width, hidden), part, layer)
        yield Tensor(f"{at}routed_expert_up_proj.weight", (hidden, width), part, layer)
        if moe.latent_norm:
            yield Tensor(f"{at}routed_expert_norm.weight", (width,), part, layer)
    if moe.num_shared:
        inner = moe.num_shared * moe.inner
        yield from _mlp(f"{at}shared_experts.", hidden, inner, "shared experts", layer)
    for name in ("w1", "w2", "w3"):
        shape = (width, moe.inner) if name == "w2" else (moe.inner, width)
        expert = f"{at}experts.{{e}}.{name}.weight"
        yield Tensor(expert, shape, "routed experts", layer, moe.num_experts, sharded=True)


def vision_tensors(config: KimiConfig) -> Iterator[Tensor]:
    """The tower and the projector; none where the config has no vision_config.

    Raises:
        ConfigError: a vision_config without its sizes.
    """
    found: Any = config.raw.get("vision_config")
    if not isinstance(found, dict):
        return
    vision = cast(dict[str, Any], found)

    def size(key: str, default: int | None = None) -> int:
        value = vision.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"vision_config: {key} is {value!r}; a whole number is needed")
        return value

    width, inner, qkv = size("vt_hidden_size"), size("vt_intermediate_size"), size("qkv_hidden_size")
    patch, text = size("patch_size", 14), size("text_hidden_size", config.hidden)
    rows, columns = size("init_pos_emb_height"), size("init_pos_emb_width")
    merge: Any = vision.get("merge_kernel_size", [2, 2])
    merged = width * prod(cast(list[int], merge) if isinstance(merge, list) else [2, 2])

    def one(name: str, *shape: int) -> Tensor:
        return Tensor(name, shape, "vision")

    yield one("vision_tower.patch_embed.proj.weight", width, 3, patch, patch)
    yield one("vision_tower.patch_embed.pos_emb.weight", rows, columns, width)
    for block in range(size("vt_num_hidden_layers")):
        at = f"vision_tower.encoder.blocks.{block}."
        yield one(f"{at}norm0.weight", width)
        yield one(f"{at}norm1.weight", width)
        yield one(f"{at}wqkv.weight", 3 * qkv, width)
        yield one(f"{at}wo.weight", width, qkv)
        yield one(f"{at}mlp.fc0.weight", inner, width)
        yield one(f"{at}mlp.fc1.weight", width, inner)
    yield one("vision_tower.encoder.final_layernorm.weight", width)
    yield one("mm_projector.proj.0.weight", merged, merged)
    yield one("mm_projector.proj.2.weight", text, merged)
    yield one("mm_projector.post_norm.weight", text)


def active_parameters(config: KimiConfig) -> int:
    """Parameters that one token passes through: no embedding table, no vision, the chosen experts only."""
    moe = config.moe
    total = 0
    for tensor in text_tensors(config):
        if tensor.part == "routed experts" and moe is not None:
            total += prod(tensor.shape) * moe.top_k
        elif tensor.part != "embedding":
            total += tensor.elements
    return total
