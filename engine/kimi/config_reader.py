"""Reads the keys of a config.json, checks each, and refuses what contradicts itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...sandbox.base.errors import ConfigError
from .config import DsaConfig, KdaConfig, KimiConfig, MlaConfig, MoeConfig
from .known_keys import DSA_SPELLINGS, KNOWN, KNOWN_TOP
from .switches import Switches

MAX_LAYERS = 10_000


class ConfigReader:
    """Takes keys out of one mapping and remembers what it asked for."""

    def __init__(self, text: dict[str, Any], raw: dict[str, Any], switches: Switches, where: str) -> None:
        self.text, self.raw, self.switches, self.where = text, raw, switches, where
        self.warnings: list[str] = []

    def fail(self, what: str) -> ConfigError:
        return ConfigError(f"{self.where}: {what}")

    def number(self, key: str, default: int | None = None, least: int = 1, of: Any = None) -> int:
        found = (self.text if of is None else of).get(key, default)
        if found is None:
            raise self.fail(f"the key {key} is missing")
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if type(found) is not int or not least <= found < 2**40:
            raise self.fail(f"{key} is {_short(found)}; a whole number of at least {least} is needed")
        return found

    def real(self, key: str, default: float | None = None, of: Any = None) -> float:
        found = (self.text if of is None else of).get(key, default)
        if found is None:
            raise self.fail(f"the key {key} is missing")
        if type(found) not in (int, float) or found != found or abs(found) == float("inf"):
            raise self.fail(f"{key} is {_short(found)}; a number is needed")
        return float(found)

    def flag(self, key: str, default: bool, of: Any = None) -> bool:
        found = (self.text if of is None else of).get(key)
        if found is None:
            return default
        if type(found) is not bool:
            raise self.fail(f"{key} is {_short(found)}; true or false is needed")
        return found

    def read(self) -> KimiConfig:
        text = self.text
        family = self._family()
        layers = self.number("num_hidden_layers")
        if layers > MAX_LAYERS:
            raise self.fail(f"num_hidden_layers is {layers}; at most {MAX_LAYERS} are believed")
        linear = text.get("linear_attn_config") or {}
        if not isinstance(linear, dict):
            raise self.fail("linear_attn_config is no JSON object")
        full = self._layer_kinds(linear, layers)
        self._refuse_what_is_not_there()
        activation = str(text.get("hidden_act", "silu")).lower()
        if activation == "swish":
            activation = "silu"
        if activation not in ("situ", "silu"):
            raise self.fail(f"hidden_act is {_short(activation)}; situ and silu are known")
        situ = activation == "situ"
        linear_beta = text.get("activation_situ_linear_beta")
        kda = self._kda(linear) if len(full) < layers else None
        mla = self._mla() if full else None
        block = text.get("attn_res_block_size")
        eps = self.real("rms_norm_eps", 1e-5)
        if eps <= 0:
            raise self.fail("rms_norm_eps is not positive")
        config = KimiConfig(
            family=family,
            vocab_size=self.number("vocab_size"),
            hidden=self.number("hidden_size"),
            num_layers=layers,
            intermediate=self.number("intermediate_size"),
            eps=eps,
            activation=activation,
            situ_beta=self._positive("activation_situ_beta", 4.0) if situ else 4.0,
            situ_linear_beta=self._positive("activation_situ_linear_beta")
            if linear_beta is not None
            else None,
            block_size=None if block is None else self.number("attn_res_block_size"),
            full_layers=full,
            kda=kda,
            mla=mla,
            dsa=self._dsa(full, mla),
            moe=self._moe(layers),
            tied=self.flag("tie_word_embeddings", bool(self.raw.get("tie_word_embeddings", False))),
            max_context=self._context(),
            tokens=self._tokens(),
            switches=self.switches,
            raw=self.raw,
            warnings=(),
        )
        unknown = sorted(key for key in text if key not in KNOWN)
        if text is not self.raw and "text_config" in self.raw:
            unknown += sorted(key for key in self.raw if key not in KNOWN_TOP)
        if unknown:
            self.warnings.append(
                f"{self.where}: keys without a known meaning are ignored: {', '.join(unknown)}"
            )
        return replace(config, warnings=tuple(self.warnings))

    def _family(self) -> str:
        names = [str(self.raw.get("model_type", ""))]
        architectures = self.raw.get("architectures")
        names += [str(a) for a in architectures] if isinstance(architectures, list) else []
        joined = " ".join(names).lower().replace("_", "").replace(".", "")
        dsa = _find_dsa(self.text) or _find_dsa(self.raw)
        if "kimik31" in joined or dsa:
            return "k31"
        if "kimik3" in joined or "attn_res_block_size" in self.text:
            return "k3"
        if "kimilinear" in joined:
            return "kimi-linear"
        what = names[0] or (names[1] if len(names) > 1 else "not given")
        raise ConfigError(
            f"{self.where}: the model type is {what[:80]}, which the native engine does not run",
            hint="it runs Kimi K3, Kimi K3.1 and Kimi-Linear checkpoints",
        )

    def _layer_kinds(self, linear: dict[str, Any], layers: int) -> frozenset[int]:
        full, kda = (self._layer_list(linear, key, layers) for key in ("full_attn_layers", "kda_layers"))
        if full is None and kda is None:
            raise self.fail("linear_attn_config lacks full_attn_layers and kda_layers")
        everything = frozenset(range(layers))
        full = everything - kda if full is None and kda is not None else full
        assert full is not None
        kda = everything - full if kda is None else kda
        if both := full & kda:
            raise self.fail(f"layer {min(both) + 1} is in full_attn_layers and in kda_layers")
        if left := everything - full - kda:
            raise self.fail(f"layer {min(left) + 1} is in neither full_attn_layers nor kda_layers")
        return full

    def _layer_list(self, of: dict[str, Any], key: str, layers: int) -> frozenset[int] | None:
        found = of.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or not all(type(n) is int for n in found):
            raise self.fail(f"{key} is no list of layer numbers")
        for n in found:
            if not 1 <= n <= layers:
                raise self.fail(f"{key} names layer {n}; layers count from 1 to num_hidden_layers = {layers}")
        if len(set(found)) < len(found):
            raise self.fail(f"{key} names a layer twice")
        return frozenset(n - 1 for n in found)

    def _kda(self, linear: dict[str, Any]) -> KdaConfig:
        bound = linear.get("gate_lower_bound", self.text.get("gate_lower_bound"))
        if bound is not None:
            bound = self.real("gate_lower_bound", of={"gate_lower_bound": bound})
            if bound >= 0:
                raise self.fail(f"gate_lower_bound is {bound}; a negative number is needed")
        full_rank = linear.get("use_full_rank_gate", self.text.get("use_full_rank_gate"))
        return KdaConfig(
            num_heads=self.number("num_heads", of=linear),
            head_dim=self.number("head_dim", of=linear),
            conv_size=self.number("short_conv_kernel_size", 4, of=linear),
            gate_lower_bound=bound,
            full_rank_gate=self.flag("use_full_rank_gate", False, of={"use_full_rank_gate": full_rank}),
        )

    def _mla(self) -> MlaConfig:
        if not self.flag("mla_use_nope", True):
            raise self.fail("mla_use_nope is false: rotated attention is not part of this family")
        heads = self.number("num_attention_heads")
        if self.number("num_key_value_heads", heads) != heads:
            raise self.fail(
                "num_key_value_heads differs from num_attention_heads: latent attention has one count"
            )
        rank = self.text.get("q_lora_rank")
        return MlaConfig(
            num_heads=heads,
            q_lora_rank=None if rank is None else self.number("q_lora_rank"),
            kv_lora_rank=self.number("kv_lora_rank"),
            nope_dim=self.number("qk_nope_head_dim"),
            pe_dim=self.number("qk_rope_head_dim", least=0),
            v_dim=self.number("v_head_dim"),
            output_gate=self.flag("mla_use_output_gate", False),
        )

    def _dsa(self, full: frozenset[int], mla: MlaConfig | None) -> DsaConfig | None:
        found = _find_dsa(self.text) or _find_dsa(self.raw)
        if found is None:
            return None
        if mla is None:
            raise self.fail("there is a dsa_config and no full-attention layer it could act on")
        if mla.q_lora_rank is None:
            raise self.fail("there is a dsa_config and no q_lora_rank: the indexer reads the query latent")
        values: list[int] = []
        for spellings in DSA_SPELLINGS:
            given = {found[key] for key in spellings if isinstance(found.get(key), int)}
            if len(given) != 1:
                state = "is missing" if not given else "is given twice, differently"
                raise self.fail(
                    f"dsa_config: {spellings[0]} {state} (known spellings: {', '.join(spellings)})"
                )
            values.append(self.number(spellings[0], of={spellings[0]: given.pop()}))
        heads, dim, top_k = values
        layers = full
        for key, value in found.items():
            if isinstance(value, list) and value and all(type(n) is int for n in value):
                if "layer" not in key and frozenset(n - 1 for n in value) != full:
                    self.warnings.append(
                        f"{self.where}: dsa_config: the list {key} names no layers and is ignored"
                    )
                    continue
                numbers = self._layer_list(found, key, self.number("num_hidden_layers"))
                assert numbers is not None
                if outside := numbers - full:
                    raise self.fail(
                        f"dsa_config: {key} names layer {min(outside) + 1}, which is no full-attention layer"
                    )
                layers = numbers
        known = {key for spellings in DSA_SPELLINGS for key in spellings}
        if unknown := sorted(k for k, v in found.items() if k not in known and not isinstance(v, list)):
            self.warnings.append(f"{self.where}: dsa_config: keys that are ignored: {', '.join(unknown)}")
        return DsaConfig(heads, dim, top_k, layers)

    def _moe(self, layers: int) -> MoeConfig | None:
        text = self.text
        if text.get("num_experts") in (None, 0):
            return None
        experts = self.number("num_experts")
        key = "num_experts_per_token" if "num_experts_per_token" in text else "num_experts_per_tok"
        top_k = self.number(key)
        if top_k > experts:
            raise self.fail(
                f"{key} is {top_k} and num_experts {experts}: fewer experts than a token asks for"
            )
        groups = self.number("num_expert_group", 1) if self.flag("use_grouped_topk", True) else 1
        kept = min(self.number("topk_group", groups), groups)
        if experts % groups:
            raise self.fail(f"num_experts = {experts} does not divide into num_expert_group = {groups}")
        if kept * (experts // groups) < top_k:
            raise self.fail(f"{kept} groups of {experts // groups} experts hold fewer than {key} = {top_k}")
        function = str(text.get("moe_router_activation_func", "sigmoid"))
        if function != "sigmoid":
            raise self.fail(f"moe_router_activation_func is {function[:40]}; sigmoid is known")
        latent = text.get("routed_expert_hidden_size")
        shared = text.get("num_shared_experts")
        moe = MoeConfig(
            num_experts=experts,
            top_k=top_k,
            num_shared=0 if shared is None else self.number("num_shared_experts", least=0),
            inner=self.number("moe_intermediate_size"),
            latent=None if latent is None else self.number("routed_expert_hidden_size"),
            latent_norm=latent is not None and self.flag("latent_moe_use_norm", True),
            renormalise=self.flag("moe_renormalize", True),
            scale=self.real("routed_scaling_factor", 1.0),
            groups=groups,
            groups_kept=kept,
            first_dense=self.number("first_k_dense_replace", 0, least=0),
            frequency=self.number("moe_layer_freq", 1),
        )
        return moe if any(moe.at(layer) for layer in range(layers)) else None

    def _refuse_what_is_not_there(self) -> None:
        """Keys whose other values would change the numbers."""
        if self.text.get("num_nextn_predict_layers"):
            self.warnings.append(f"{self.where}: the extra prediction layers are not used")
        for key in ("rope_scaling",):
            if self.text.get(key):
                self.warnings.append(f"{self.where}: {key} has no effect, nothing is rotated in this family")
        quantised = self.text.get("quantization_config") or self.raw.get("quantization_config")
        if isinstance(quantised, dict):
            form = str(quantised.get("format", "mxfp4-pack-quantized"))
            if form != "mxfp4-pack-quantized":
                raise self.fail(f"the weights are stored as {form[:60]}; mxfp4-pack-quantized is known")
            groups = quantised.get("config_groups")
            for group in groups.values() if isinstance(groups, dict) else ():
                weights = group.get("weights") if isinstance(group, dict) else None
                size = weights.get("group_size", 32) if isinstance(weights, dict) else 32
                if size != 32:
                    raise self.fail(f"the weights are quantised in groups of {_short(size)}; MXFP4 has 32")

    def _positive(self, key: str, default: float | None = None) -> float:
        found = self.real(key, default)
        if found <= 0:
            raise self.fail(f"{key} is {found}; a positive number is needed")
        return found

    def _context(self) -> int:
        for key in ("max_position_embeddings", "model_max_length"):
            if self.text.get(key) is not None:
                return self.number(key)
        return 1_048_576

    def _tokens(self) -> dict[str, int | None]:
        names = {"bos": "bos_token_id", "eos": "eos_token_id", "pad": "pad_token_id"}
        names["media"] = "media_placeholder_token_id"
        found: dict[str, int | None] = {}
        for short, key in names.items():
            value = self.raw.get(key, self.text.get(key))
            found[short] = value if type(value) is int else None
        return found


def _find_dsa(of: Mapping[str, Any]) -> dict[str, Any] | None:
    found = of.get("dsa_config")
    return found if isinstance(found, dict) and found else None


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
