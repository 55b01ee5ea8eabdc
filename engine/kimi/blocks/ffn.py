"""Feed-forward layers: the dense one, and the mixture of experts on the hidden state or on a latent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....kernels import moe
from ....kernels.mix import rms_norm
from ..config import KimiConfig, MoeConfig
from ..experts import ExpertSource
from ..linear import Linear, Loader
from ..safetensors import Array
from .numerics import sigmoid


def activation_of(config: KimiConfig) -> moe.Activation:
    """act(gate, up) of the model."""
    if config.activation == "situ":
        return moe.situ(config.situ_beta, config.situ_linear_beta)
    return moe.SWIGLU


@dataclass(frozen=True)
class GatedMlp:
    """down(act(gate x, up x))."""

    gate: Linear
    up: Linear
    down: Linear
    act: moe.Activation

    @classmethod
    def load(cls, loader: Loader, config: KimiConfig, base: str, inner: int) -> GatedMlp:
        hidden = config.hidden
        return cls(
            loader.linear(f"{base}.gate_proj", inner, hidden),
            loader.linear(f"{base}.up_proj", inner, hidden),
            loader.linear(f"{base}.down_proj", hidden, inner),
            activation_of(config),
        )

    @classmethod
    def dense_layer(cls, loader: Loader, config: KimiConfig, layer: int) -> GatedMlp:
        """The whole feed-forward part of a layer without experts; two spellings of its place are in use."""
        bases = [f"model.layers.{layer}.{name}" for name in ("mlp", "block_sparse_moe")]
        has = loader.checkpoint.has
        base = next(
            (b for b in bases if has(f"{b}.gate_proj.weight") or has(f"{b}.gate_proj.weight_packed")),
            bases[0],
        )
        return cls.load(loader, config, base, config.intermediate)

    def __call__(self, x: Array) -> Array:
        return self.down(self.act(self.gate(x), self.up(x)))


@dataclass(frozen=True)
class MoeLayer:
    """Routed experts, and one shared MLP that every token passes."""

    layer: int
    shape: MoeConfig
    eps: float
    router: Array
    """f32[E, hidden]."""
    bias: Array | None
    source: ExpertSource
    latent_down: Linear | None
    latent_norm: Array | None
    latent_up: Linear | None
    shared: GatedMlp | None
    act: moe.Activation
    exact: bool
    used: Array
    """i64[E]: how often each expert was chosen, for the metrics."""

    @classmethod
    def load(cls, loader: Loader, config: KimiConfig, layer: int, source: ExpertSource) -> MoeLayer:
        shape, hidden = config.moe, config.hidden
        assert shape is not None
        take = loader.checkpoint
        base = f"model.layers.{layer}.block_sparse_moe"
        if not take.has(f"{base}.gate.weight") and take.has(f"model.layers.{layer}.mlp.gate.weight"):
            base = f"model.layers.{layer}.mlp"
        down = norm = up = None
        if shape.latent is not None:
            down = loader.linear(f"{base}.routed_expert_down_proj", shape.latent, hidden)
            up = loader.linear(f"{base}.routed_expert_up_proj", hidden, shape.latent)
            if shape.latent_norm:
                norm = take.vector(f"{base}.routed_expert_norm.weight", shape.latent)
        shared = None
        if shape.num_shared:
            inner = shape.num_shared * shape.inner
            shared = GatedMlp.load(loader, config, f"{base}.shared_experts", inner)
        return cls(
            layer=layer,
            shape=shape,
            eps=config.eps,
            router=loader.widened(f"{base}.gate", shape.num_experts, hidden),
            bias=take.vector(f"{base}.gate.e_score_correction_bias", shape.num_experts),
            source=source,
            latent_down=down,
            latent_norm=norm,
            latent_up=up,
            shared=shared,
            act=activation_of(config),
            exact=loader.exact,
            used=np.zeros(shape.num_experts, np.int64),
        )

    def route(self, x: Array) -> tuple[Array, Array]:
        """ids i32[T, k] and weights f32[T, k]."""
        shape = self.shape
        if shape.groups_kept < shape.groups:
            return self._route_in_groups(x)
        return moe.route(x, self.router, self.bias, shape.top_k, shape.scale, shape.renormalise)

    def __call__(self, x: Array) -> Array:
        ids, weights = self.route(x)
        chosen, counts = np.unique(ids, return_counts=True)
        self.used[chosen] += counts
        z = x if self.latent_down is None else self.latent_down(x)
        y = self._experts(z, ids, weights)
        if self.latent_norm is not None:
            y = rms_norm(y, self.latent_norm, self.eps)
        if self.latent_up is not None:
            y = self.latent_up(y)
        return y if self.shared is None else y + self.shared(x)

    def _experts(self, z: Array, ids: Array, weights: Array) -> Array:
        """The weighted sum of the chosen experts (a negative id is none), as many at once as may be held."""
        chosen = np.unique(ids[ids >= 0])
        self.source.announce(self.layer, chosen.tolist())
        at_once = self.source.at_once or chosen.size
        if chosen.size <= at_once:
            return self._at_once(z, ids, weights)
        y = np.zeros_like(z)
        for start in range(0, chosen.size, at_once):
            part = np.isin(ids, chosen[start : start + at_once])
            y += self._at_once(z, np.where(part, ids, -1), weights)
        return y

    def _at_once(self, z: Array, ids: Array, weights: Array) -> Array:
        return moe.experts(
            z,
            ids,
            weights,
            lambda expert: self.source.get(self.layer, expert),
            self.act,
            precision="f32" if self.exact else "auto",
        )

    def _route_in_groups(self, x: Array) -> tuple[Array, Array]:
        """Only experts of the best groups may be chosen; a group counts as the sum of its two best."""
        shape = self.shape
        s = sigmoid(x @ self.router.T)
        choice = s if self.bias is None else s + self.bias
        size = shape.num_experts // shape.groups
        by_group = choice.reshape(-1, shape.groups, size)
        best = np.sort(by_group, axis=2)[:, :, -min(2, size) :].sum(axis=2)
        kept = np.argsort(-best, axis=1, kind="stable")[:, : shape.groups_kept]
        allowed = np.zeros(best.shape, np.bool_)
        np.put_along_axis(allowed, kept, True, axis=1)
        choice = np.where(np.repeat(allowed, size, axis=1), choice, -np.inf)
        ids = np.argsort(-choice, axis=1, kind="stable")[:, : shape.top_k]
        weights = np.take_along_axis(s, ids, axis=1)
        if shape.renormalise:
            weights = weights / (weights.sum(axis=1, keepdims=True) + np.float32(1e-20))
        return ids.astype(np.int32), weights * np.float32(shape.scale)
