"""Small random checkpoints in the released layout, for tests, documents and trying things out.

Same seed, same files, byte for byte. The weights are noise: such a model writes noise, but everything around
it (shards, packed experts, tokenizer, chat format, caches) is as in a real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np

from ...kernels.mxfp4 import quantise
from ...sandbox.base.errors import UsageError
from ...sandbox.base.files import atomic_write
from ..cluster.licence import TINY_LICENCE
from .chat.standin import ENCODER_FILE, TINY_TEMPLATE, encoder_source
from .config import parse_config
from .inventory import MXFP4_GROUP, Tensor, text_tensors, vision_tensors
from .safetensors import DTYPES, Array
from .safetensors_writer import Planned, index_of, shard_name, write_file
from .tokenizer import K3_SPECIALS, RANKS_FILE, SPECIAL_SLOTS, write_ranks
from .vocabulary import small_ranks

Family = Literal["k3", "k31", "kimi-linear"]
K2_SPECIALS: Final = {
    0: "[BOS]",
    1: "[EOS]",
    2: "<|im_end|>",
    3: "<|im_user|>",
    4: "<|im_assistant|>",
    5: "<|im_middle|>",
    9: "[EOT]",
    10: "<|im_system|>",
    11: "<|tool_calls_section_begin|>",
    12: "<|tool_calls_section_end|>",
    13: "<|tool_call_begin|>",
    14: "<|tool_call_argument_begin|>",
    15: "<|tool_call_end|>",
    254: "[UNK]",
    255: "[PAD]",
}


@dataclass(frozen=True)
class TinyOptions:
    """What to make.

    Args:
        hidden: width, a multiple of 32.
        layers: at least 4; every fourth and the last are full attention, as in the releases.
        shards: safetensors files.
        merges: tokens of the vocabulary beside the 256 bytes.
        dtype: BF16 as in the releases, or F32.
        packed: routed experts in MXFP4 (K3's release) or plain (Kimi-Linear's).
        vision: a tower and a projector (K3 and K3.1).
        top_k: keys an indexer selects (K3.1).
        wide: full attention and indexer as wide as in K3's release, 25 million parameters more in each such
            layer; rows of eight bits are made for that width.
    """

    family: Family = "k3"
    seed: int = 0
    hidden: int = 64
    layers: int = 5
    experts: int = 8
    shards: int = 2
    merges: int = 256
    dtype: Literal["BF16", "F32"] = "BF16"
    packed: bool | None = None
    vision: bool = False
    top_k: int = 16
    max_context: int = 16_384
    wide: bool = False

    def __post_init__(self) -> None:
        if self.hidden < 32 or self.hidden % MXFP4_GROUP:
            raise UsageError(f"a hidden size of {self.hidden} is no multiple of {MXFP4_GROUP}")
        if self.layers < 4 or self.experts < 4 or self.shards < 1 or self.merges < 0 or self.top_k < 1:
            raise UsageError("a tiny model has at least 4 layers, 4 experts and 1 shard")
        if self.vision and self.family == "kimi-linear":
            raise UsageError("Kimi-Linear has no vision")


def make_tiny(folder: Path, options: TinyOptions) -> int:
    """Writes the checkpoint; returns its parameters.

    Raises:
        UsageError: the folder holds something already.
        DiskFull: no room.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", hint="name a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    ranks = small_ranks(options.merges)
    raw = tiny_config(options, len(ranks))
    config = parse_config(raw)
    tensors = [*text_tensors(config), *vision_tensors(config)]
    shards = _sharded([group for each in tensors for group in _groups(tensors, each)], options, raw)
    random = np.random.Generator(np.random.PCG64(options.seed))
    held: dict[str, Array] = {}

    def data(planned: Planned) -> Array:
        if planned.name not in held:
            _fill(held, planned, random)
        return held.pop(planned.name)

    named = [(shard_name(number, len(shards)), shard) for number, shard in enumerate(shards, start=1)]
    for name, shard in named:
        write_file(folder / name, shard, data)
    files = {
        "model.safetensors.index.json": index_of(named),
        RANKS_FILE: write_ranks(ranks),
        "LICENSE": TINY_LICENCE.encode(),
        **_side_files(options, raw, len(ranks)),
    }
    for name, content in files.items():
        atomic_write(folder / name, content)
    atomic_write(folder / "config.json", _json(raw))
    return sum(tensor.elements for tensor in tensors)


def tiny_config(options: TinyOptions, ranks: int) -> dict[str, Any]:
    """The config.json of a tiny model, in the shape of its family's."""
    layers, hidden, linear = options.layers, options.hidden, options.family == "kimi-linear"
    full = sorted({*range(4, layers + 1, 4), layers})
    heads, dim = 4, 32
    tokens = {"bos_token_id": ranks, "eos_token_id": ranks + 2, "pad_token_id": ranks + 255}
    dtype = "float32" if options.dtype == "F32" else "bfloat16"
    attention: dict[str, Any] = {
        "full_attn_layers": full,
        "kda_layers": [layer for layer in range(1, layers + 1) if layer not in full],
        "head_dim": dim,
        "num_heads": heads,
        "short_conv_kernel_size": 4,
    }
    text: dict[str, Any] = {
        "vocab_size": ranks + SPECIAL_SLOTS,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "rms_norm_eps": 1e-5,
        "q_lora_rank": None if linear else 32,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "mla_use_nope": True,
        "num_experts": options.experts,
        "num_experts_per_token": 2,
        "moe_intermediate_size": 32,
        "moe_router_activation_func": "sigmoid",
        "moe_renormalize": True,
        "use_grouped_topk": True,
        "num_expert_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "linear_attn_config": attention,
    }
    if options.packed if options.packed is not None else not linear:
        text["quantization_config"] = quantization_config()
    if options.wide:
        text |= {"num_attention_heads": 96, "num_key_value_heads": 96, "kv_lora_rank": 512}
        text |= {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    if linear:
        text |= {"hidden_act": "silu", "num_shared_experts": 1, "routed_scaling_factor": 2.446}
        text |= {"model_max_length": options.max_context, "tie_word_embeddings": False, **tokens}
        names = {"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "dtype": dtype}
        return {**names, **text}
    attention |= {"gate_lower_bound": -5.0, "use_full_rank_gate": True}
    text |= {
        "model_type": "kimi_linear",
        "architectures": ["KimiLinearForCausalLM"],
        "hidden_act": "situ",
        "activation_situ_beta": 4.0,
        "activation_situ_linear_beta": 25.0,
        "attn_res_block_size": 3,
        "mla_use_output_gate": True,
        "num_shared_experts": 2,
        "routed_expert_hidden_size": 32,
        "latent_moe_use_norm": True,
        "routed_scaling_factor": 1.0,
        "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 0,
        "max_position_embeddings": options.max_context,
    }
    newer = options.family == "k31"
    if newer:
        count, width = (32, 128) if options.wide else (4, 16)
        indexer = {"index_n_heads": count, "index_head_dim": width, "index_topk": options.top_k}
        text["dsa_config"] = {**indexer, "dsa_layers": full}
    config = {
        "architectures": ["KimiK31ForConditionalGeneration" if newer else "KimiK3ForConditionalGeneration"],
        "model_type": "kimi_k31" if newer else "kimi_k3",
        "dtype": dtype,
        **tokens,
        "ignore_index": -100,
        "image_placeholder": "<|kimi_image_placeholder|>",
        "media_placeholder_token_id": ranks + 21,
        "tie_word_embeddings": False,
        "text_config": text,
    }
    if options.vision:
        config["vision_config"] = _vision_config(hidden)
    return config


def quantization_config() -> dict[str, Any]:
    """The entry that says that the routed experts are MXFP4."""
    weights = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "symmetric": True}
    group = {"targets": ["Linear"], "weights": {**weights, "dynamic": False, "scale_dtype": "torch.uint8"}}
    return {
        "quant_method": "compressed-tensors",
        "format": "mxfp4-pack-quantized",
        "quantization_status": "compressed",
        "kv_cache_scheme": None,
        "config_groups": {"group_0": {**group, "input_activations": None}},
        "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*lm_head.*"],
    }


def _vision_config(hidden: int) -> dict[str, Any]:
    return {
        "patch_size": 14,
        "init_pos_emb_height": 8,
        "init_pos_emb_width": 8,
        "init_pos_emb_time": 4,
        "pos_emb_type": "divided_fixed",
        "pos_emb_interpolation_mode": "bilinear",
        "vt_hidden_size": 32,
        "vt_intermediate_size": 64,
        "vt_num_attention_heads": 2,
        "vt_num_hidden_layers": 2,
        "qkv_hidden_size": 64,
        "norm_type": "rmsnorm",
        "attn_bias": False,
        "linear_bias": False,
        "patch_embed_proj_bias": False,
        "mlp_type": "mlp2",
        "activation": "gelu_pytorch_tanh",
        "merge_kernel_size": [2, 2],
        "merge_type": "sd2_tpool",
        "mm_projector_type": "patchmergerv2",
        "mm_hidden_size": 32,
        "projector_hidden_act": "gelu",
        "projector_ln_eps": 1e-5,
        "text_hidden_size": hidden,
    }


def _groups(tensors: Sequence[Tensor], tensor: Tensor) -> Iterator[list[Tensor]]:
    """What must stay together: a tensor, or the three matrices of one expert (with its number filled in)."""
    if tensor.part != "routed experts":
        yield [tensor]
    elif tensor.name.endswith("w1.weight"):
        stem = tensor.name.removesuffix("w1.weight")
        three = [each for each in tensors if each.name.startswith(stem)]
        for expert in range(tensor.copies):
            yield [
                Tensor(each.name.replace("{e}", str(expert)), each.shape, each.part, each.layer)
                for each in three
            ]


def _sharded(
    groups: Sequence[Sequence[Tensor]], options: TinyOptions, raw: dict[str, Any]
) -> list[list[Planned]]:
    text = cast(dict[str, Any], raw.get("text_config", raw))
    planned = [
        [one for tensor in group for one in planned_of(tensor, options.dtype, "quantization_config" in text)]
        for group in groups
    ]
    total = sum(each.nbytes for group in planned for each in group)
    shards: list[list[Planned]] = [[]]
    written = 0
    for group in planned:
        if shards[-1] and written * options.shards >= total * len(shards):
            shards.append([])
        shards[-1] += group
        written += sum(each.nbytes for each in group)
    return shards


def planned_of(tensor: Tensor, dtype: str, packed: bool) -> list[Planned]:
    """One tensor as it stands in a file: itself, or codes and scales."""
    if packed and tensor.part == "routed experts":
        rows, columns = tensor.shape
        return [
            Planned(f"{tensor.name}_packed", "U8", (rows, columns // 2)),
            Planned(f"{tensor.name}_scale", "U8", (rows, columns // MXFP4_GROUP)),
        ]
    return [Planned(tensor.name, "F32" if tensor.full else dtype, tensor.shape)]


def _fill(held: dict[str, Array], planned: Planned, random: np.random.Generator) -> None:
    """Random values as a fresh network has them; codes come with their scales."""
    name = planned.name
    if name.endswith(".weight_packed"):
        rows, half = planned.shape
        held[name], held[name.removesuffix("_packed") + "_scale"] = quantise(
            (random.standard_normal((rows, 2 * half)) / np.sqrt(2 * half)).astype(np.float32)
        )
        return
    shape = planned.shape
    if name.endswith("A_log"):
        value = np.log(random.uniform(1.0, 16.0, shape))
        value.reshape(-1)[_heads_of(shape) :] = 0.0
    elif name.endswith("dt_bias"):
        value = random.uniform(-4.0, -1.0, shape)
    elif name.endswith("e_score_correction_bias"):
        value = random.standard_normal(shape) * 0.02
    elif len(shape) == 1:
        value = 1.0 + random.standard_normal(shape) * 0.05
    elif name.endswith("conv1d.weight"):
        value = random.standard_normal(shape) * 0.5
    elif name.endswith("embed_tokens.weight"):
        value = random.standard_normal(shape)
    else:
        value = random.standard_normal(shape) / np.sqrt(prod(shape[1:]))
    held[name] = value.astype(DTYPES[planned.dtype])


def _heads_of(shape: tuple[int, ...]) -> int:
    """K3 pads A_log with zeros from the number of heads (4 here) to the head width."""
    return 4 if len(shape) == 1 else prod(shape)


def _side_files(options: TinyOptions, raw: dict[str, Any], ranks: int) -> dict[str, bytes]:
    generation = {
        "bos_token_id": ranks,
        "eos_token_id": ranks + 2,
        "temperature": 1.0,
        "top_p": 0.95,
        "do_sample": True,
    }
    files = {"generation_config.json": _json(generation)}
    linear = options.family == "kimi-linear"
    specials = K2_SPECIALS if linear else K3_SPECIALS
    listed = {str(ranks + slot): {"content": name, "special": True} for slot, name in specials.items()}
    settings: dict[str, Any] = {"added_tokens_decoder": listed, "model_max_length": options.max_context}
    if linear:
        settings["chat_template"] = TINY_TEMPLATE
    else:
        files[ENCODER_FILE] = encoder_source().encode()
        processing = {"patch_size": 14, "merge_kernel_size": 2, "in_patch_limit": 64}
        files["preprocessor_config.json"] = _json({"media_proc_cfg": processing})
    return {**files, "tokenizer_config.json": _json(settings)}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
