"""What a checkpoint's config.json says, checked and in one form for the whole family.

K3 and K3.1 keep the text model's keys under ``text_config``; Kimi-Linear has them at the top. Features are
recognised by their keys: no ``attn_res_block_size`` means plain residuals, no ``routed_expert_hidden_size``
experts on the full hidden state, no ``gate_lower_bound`` the softplus decay, and so on. Layers count from 0
here; the files count from 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import read_regular
from .known_keys import KNOWN
from .switches import Switches, parse_sets


@dataclass(frozen=True)
class KdaConfig:
    """Linear-attention layers: K = V = `head_dim`."""

    num_heads: int
    head_dim: int
    conv_size: int
    gate_lower_bound: float | None
    """L of g = L * sigmoid(...); None: g = -exp(A_log) * softplus(...)."""
    full_rank_gate: bool

    @property
    def width(self) -> int:
        return self.num_heads * self.head_dim


@dataclass(frozen=True)
class MlaConfig:
    """Full-attention layers over a shared latent."""

    num_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    nope_dim: int
    pe_dim: int
    v_dim: int
    output_gate: bool

    @property
    def scale(self) -> float:
        return (self.nope_dim + self.pe_dim) ** -0.5


@dataclass(frozen=True)
class DsaConfig:
    """The indexer that restricts full attention to `top_k` keys."""

    num_heads: int
    head_dim: int
    top_k: int
    layers: frozenset[int]


@dataclass(frozen=True)
class MoeConfig:
    """Routed experts; `latent` is the width they act on where that is not the hidden size."""

    num_experts: int
    top_k: int
    num_shared: int
    inner: int
    latent: int | None
    latent_norm: bool
    renormalise: bool
    scale: float
    groups: int
    groups_kept: int
    first_dense: int
    frequency: int
    shared_inner: int | None = None
    """Width of the shared experts' middle on this process, where it is not `num_shared` times `inner`."""

    @property
    def shared_width(self) -> int:
        """Width of the middle of the shared experts, which are one MLP."""
        return self.num_shared * self.inner if self.shared_inner is None else self.shared_inner

    def at(self, layer: int) -> bool:
        """Whether `layer` has experts."""
        return layer >= self.first_dense and layer % self.frequency == 0


@dataclass(frozen=True)
class KimiConfig:
    """A text model of the family."""

    family: str
    """k3, k31 or kimi-linear."""
    vocab_size: int
    hidden: int
    num_layers: int
    intermediate: int
    eps: float
    activation: str
    """situ or silu."""
    situ_beta: float
    situ_linear_beta: float | None
    block_size: int | None
    """Layers per block of the attention residuals; None: plain residuals."""
    full_layers: frozenset[int]
    kda: KdaConfig | None
    mla: MlaConfig | None
    dsa: DsaConfig | None
    moe: MoeConfig | None
    tied: bool
    max_context: int
    tokens: Mapping[str, int | None]
    """bos, eos, pad and media (the image placeholder), where given."""
    switches: Switches
    raw: Mapping[str, Any]
    """The file's whole content (vision_config among it)."""
    warnings: tuple[str, ...] = field(default=())
    stage: range | None = None
    """The layers this process holds; None: all."""

    def is_full(self, layer: int) -> bool:
        return layer in self.full_layers

    @property
    def own_layers(self) -> range:
        """The layers this process holds."""
        return range(self.num_layers) if self.stage is None else self.stage

    @property
    def own_full_layers(self) -> list[int]:
        """Those with full attention."""
        return [layer for layer in self.own_layers if layer in self.full_layers]


def load_config(path: Path, sets: Sequence[str] = ()) -> KimiConfig:
    """Read config.json (or the folder that holds it).

    Args:
        sets: ``key=value`` pairs: a switch of `Switches`, or a key of the text config.

    Raises:
        ConfigError: the file cannot be read, is no JSON, lacks keys, or contradicts itself.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        raw = json.loads(read_regular(file).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no JSON: {error}") from error
    return parse_config(raw, sets, str(file))


def parse_config(raw: Any, sets: Sequence[str] = (), where: str = "config.json") -> KimiConfig:
    """`raw`: the parsed file. Raises as `load_config` does."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where} is no JSON object")
    text = raw.get("text_config", raw)
    if not isinstance(text, dict):
        raise ConfigError(f"{where}: text_config is no JSON object")
    changed, switches = parse_sets(sets, KNOWN | frozenset(text))
    text = {**text, **changed}
    from .config_reader import ConfigReader

    return ConfigReader(text, raw, switches, where).read()
