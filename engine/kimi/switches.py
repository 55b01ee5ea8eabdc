"""What the published material leaves open, as switches with a stated default (`--set key=value`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from ...sandbox.base.errors import ConfigError


@dataclass(frozen=True)
class Switches:
    """Each field is a key of ``--set``."""

    latent_norm_eps: float = 1e-6
    """Epsilon of q_a_layernorm and kv_a_layernorm; other engines use rms_norm_eps (1e-5)."""
    index_norm_eps: float | None = None
    """Epsilon of the indexer's k_norm; none: rms_norm_eps."""
    index_norm_bias: bool = True
    """Use k_norm.bias where the file has one."""
    index_hadamard: bool = False
    """Rotate the indexer's queries and keys by a Hadamard matrix; exact scores stay as they are."""
    index_rope_dim: int = 0
    """Leading channels of each index head that are rotated; 0: none."""
    index_rope_theta: float = 10000.0
    """Base of the indexer's rotation."""
    index_rope_table_dim: int = 0
    """Width of the table the frequencies come from; 0: qk_rope_head_dim."""
    index_rope_interleaved: bool = False
    """Pair neighbouring channels instead of halves."""
    index_share: bool = False
    """Layers without indexer tensors take the selection of the indexer before them."""


def parse_sets(sets: Sequence[str], keys: frozenset[str]) -> tuple[dict[str, Any], Switches]:
    """``key=value`` pairs as changed config keys and switches.

    Raises:
        ConfigError: a pair without ``=``, an unknown key, a value of the wrong kind.
    """
    kinds = {field.name: str(field.type) for field in fields(Switches)}
    changed: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    for pair in sets:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"--set {pair[:80]}: key=value is needed")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if key in kinds:
            chosen[key] = _checked(key, value, kinds[key])
        elif key in keys:
            changed[key] = value
        else:
            near = get_close_matches(key, [*kinds, *keys], 1)
            meant = f"did you mean {near[0]}?" if near else f"switches: {', '.join(kinds)}"
            raise ConfigError(f"--set {key[:80]}: no such key", hint=meant)
    return changed, Switches(**chosen)


def _checked(key: str, value: Any, kind: str) -> Any:
    if kind == "bool" and type(value) is bool:
        return value
    if kind == "int" and type(value) is int and value >= 0:
        return value
    if kind.startswith("float") and type(value) in (int, float) and 0 < value < float("inf"):
        return float(value)
    if value is None and "None" in kind:
        return None
    raise ConfigError(f"--set {key}={str(value)[:60]}: the value is not of the kind {kind}")
