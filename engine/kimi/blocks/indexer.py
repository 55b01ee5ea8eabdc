"""The indexer of sparse attention: which positions a token's full attention may look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....kernels import dsa
from ....sandbox.base.errors import ConfigError
from ..config import KimiConfig
from ..linear import Linear, Loader
from ..safetensors import Array
from .numerics import layer_norm

SCORES_AT_ONCE = 1 << 24
"""Values of the score matrix [tokens, positions] held at one time."""


@dataclass(frozen=True)
class Rotation:
    """Rotary positions for the leading channels of each index head; the public checkpoint uses none."""

    dim: int
    theta: float
    table_dim: int
    interleaved: bool

    def __call__(self, z: Array, positions: Array) -> Array:
        """z f32[T, ..., D] rotated by positions i64[T], in float32."""
        half = self.dim // 2
        steps = np.arange(half, dtype=np.float64)
        angles = positions[:, None] * self.theta ** (-2.0 * steps / self.table_dim)
        shape = (positions.shape[0], *(1,) * (z.ndim - 2), half)
        cos, sin = (f(angles).astype(np.float32).reshape(shape) for f in (np.cos, np.sin))
        out = z.copy()
        even, odd = (
            (slice(0, self.dim, 2), slice(1, self.dim, 2))
            if self.interleaved
            else (slice(0, half), slice(half, self.dim))
        )
        a, b = z[..., even], z[..., odd]
        out[..., even], out[..., odd] = a * cos - b * sin, b * cos + a * sin
        return out


@dataclass(frozen=True)
class Indexer:
    """Weights of one layer's indexer."""

    heads: int
    dim: int
    top_k: int
    query: Linear
    key: Linear
    weight: Linear
    norm: Array
    bias: Array | None
    eps: float
    hadamard: Array | None
    rotation: Rotation | None

    @classmethod
    def load(cls, loader: Loader, config: KimiConfig, layer: int) -> Indexer | None:
        """The layer's own indexer, or None where it has none and may share.

        Raises:
            ConfigError: switches that do not fit the indexer's width.
        """
        found, mla, switches = config.dsa, config.mla, config.switches
        assert found is not None and mla is not None and mla.q_lora_rank is not None
        base = f"model.layers.{layer}.self_attn.indexer"
        take = loader.checkpoint
        if switches.index_share and not take.has(f"{base}.wk.weight"):
            return None
        bias = None
        if take.has(f"{base}.k_norm.bias"):
            bias = take.vector(f"{base}.k_norm.bias", found.head_dim)
            bias = bias if switches.index_norm_bias else None
        rotation = None
        if switches.index_rope_dim:
            if switches.index_rope_dim % 2 or switches.index_rope_dim > found.head_dim:
                raise ConfigError(f"index_rope_dim must be even and at most the head width {found.head_dim}")
            table = switches.index_rope_table_dim or mla.pe_dim
            rotation = Rotation(
                switches.index_rope_dim, switches.index_rope_theta, table, switches.index_rope_interleaved
            )
        return cls(
            heads=found.num_heads,
            dim=found.head_dim,
            top_k=found.top_k,
            query=loader.linear(
                f"{base}.wq_b", found.num_heads * found.head_dim, mla.q_lora_rank, small=True
            ),
            key=loader.linear(f"{base}.wk", found.head_dim, config.hidden, small=True),
            weight=loader.linear(f"{base}.weights_proj", found.num_heads, config.hidden, small=True),
            norm=take.vector(f"{base}.k_norm.weight", found.head_dim),
            bias=bias,
            eps=config.eps if switches.index_norm_eps is None else switches.index_norm_eps,
            hadamard=_hadamard(found.head_dim) if switches.index_hadamard else None,
            rotation=rotation,
        )

    def keys(self, x: Array, positions: Array) -> Array:
        """Keys to cache, f32[T, D], of normed rows x f32[T, hidden]."""
        return self._turned(layer_norm(self.key(x), self.norm, self.bias, self.eps), positions)

    def queries(self, latent: Array, positions: Array) -> Array:
        """f32[T, H, D] of the normed query latents f32[T, q rank]."""
        return self._turned(self.query(latent).reshape(-1, self.heads, self.dim), positions)

    def weights(self, x: Array) -> Array:
        """f32[T, H] with both constant scales inside."""
        return self.weight(x) * np.float32(self.heads**-0.5 * self.dim**-0.5)

    def select(self, q: Array, w: Array, keys: Array, table: Array, first: int, length: int) -> Array:
        """Positions for query tokens at first.., i64[T, top_k], -1 where there are fewer."""
        out = np.empty((q.shape[0], self.top_k), np.int64)
        rows = max(1, SCORES_AT_ONCE // max(1, length))
        for start in range(0, q.shape[0], rows):
            part = slice(start, min(start + rows, q.shape[0]))
            seen = first + part.stop
            scores = dsa.indexer_scores(q[part], keys, w[part], first + start, table=table, length=seen)
            out[part] = dsa.top_k(scores, self.top_k)
        return out

    def _turned(self, z: Array, positions: Array) -> Array:
        if self.rotation is not None:
            z = self.rotation(z, positions)
        return z if self.hadamard is None else np.ascontiguousarray(z @ self.hadamard)


def _hadamard(width: int) -> Array:
    if width & (width - 1):
        raise ConfigError(f"index_hadamard needs an index head width that is a power of two, not {width}")
    matrix = np.ones((1, 1), np.float32)
    while matrix.shape[0] < width:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.ascontiguousarray(matrix * np.float32(width**-0.5))
