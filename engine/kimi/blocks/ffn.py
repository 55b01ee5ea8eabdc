"""Feed-forward layers: the dense one, and the mixture of experts on the hidden state or on a latent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....kernels import moe
from ....kernels.mix import rms_norm
from ..config import KimiConfig, MoeConfig
from ..experts import ExpertSource
from ..group import ALONE, Group
from ..linear import Linear, Loader
from ..safetensors import Array
from .numerics import sigmoid

SENT_FROM = 8
"""Tokens for each process from which they are shared out and sent to their experts' owners."""


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
    group: Group = ALONE

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
            shared = GatedMlp.load(loader, config, f"{base}.shared_experts", shape.shared_width)
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
            group=loader.group,
        )

    def route(self, x: Array) -> tuple[Array, Array]:
        """ids i32[T, k] and weights f32[T, k]."""
        shape = self.shape
        if shape.groups_kept < shape.groups:
            return self._route_in_groups(x)
        return moe.route(x, self.router, self.bias, shape.top_k, shape.scale, shape.renormalise)

    def __call__(self, x: Array) -> Array:
        """x f32[T, hidden] -> f32[T, hidden]; the whole sum, on every process of the group."""
        if self.group.size > 1:
            return self._among_processes(x)
        ids, weights = self.route(x)
        self._count(ids)
        y = self._lifted(self._experts(self._lowered(x), ids, weights))
        return y if self.shared is None else y + self.shared(x)

    def _lowered(self, x: Array) -> Array:
        return x if self.latent_down is None else self.latent_down(x)

    def _lifted(self, y: Array) -> Array:
        if self.latent_norm is not None:
            y = rms_norm(y, self.latent_norm, self.eps)
        return y if self.latent_up is None else self.latent_up(y)

    def _experts(self, z: Array, ids: Array, weights: Array) -> Array:
        """The weighted sum of the chosen experts; a negative id is none."""
        chosen = np.unique(ids[ids >= 0])
        self.source.announce(self.layer, chosen.tolist())
        at_once = self.source.at_once or chosen.size
        if chosen.size <= at_once:
            return self._product(z, ids, weights)
        y = np.zeros_like(z)
        for start in range(0, chosen.size, at_once):
            part = np.isin(ids, chosen[start : start + at_once])
            y += self._product(z, np.where(part, ids, -1), weights)
        return y

    def _product(self, z: Array, ids: Array, weights: Array) -> Array:
        return moe.experts(
            z,
            ids,
            weights,
            lambda expert: self.source.get(self.layer, expert),
            self.act,
            precision="f32" if self.exact else "auto",
        )

    def _count(self, ids: Array) -> None:
        chosen, counts = np.unique(ids, return_counts=True)
        self.used[chosen] += counts

    def _among_processes(self, x: Array) -> Array:
        if x.shape[0] >= SENT_FROM * self.group.size:
            y = self._sent_to_owners(x)
            return y if self.shared is None else y + self.group.total(self.shared(x))
        # Few tokens: every process does its experts for all of them, and one sum brings it all together.
        ids, weights = self.route(x)
        self._count(ids)
        owner = self._owner(ids)
        part = self._experts(self._lowered(x), np.where(owner == self.group.rank, ids, -1), weights)
        if self.shared is None:
            return self._lifted(self.group.total(part))
        both = self.group.total(np.concatenate((part, self.shared(x)), axis=1))
        return self._lifted(np.ascontiguousarray(both[:, : part.shape[1]])) + both[:, part.shape[1] :]

    def _sent_to_owners(self, x: Array) -> Array:
        """Each process routes its share of the tokens, and sends them to where their experts are."""
        group = self.group
        own = np.array_split(np.arange(x.shape[0]), group.size)[group.rank]
        ids, weights = self.route(x[own])
        self._count(np.concatenate(group.gather(ids)))
        z = self._lowered(x[own])
        owner = self._owner(ids)
        rows = [np.nonzero((owner == rank).any(axis=1))[0] for rank in range(group.size)]
        there = [np.where(owner[r] == rank, ids[r], -1) for rank, r in enumerate(rows)]
        sent_rows = group.exchange([z[r] for r in rows])
        sent_ids = group.exchange(there)
        sent_weights = group.exchange([weights[r] for r in rows])
        done = self._experts(
            np.concatenate(sent_rows), np.concatenate(sent_ids), np.concatenate(sent_weights)
        )
        cuts = np.cumsum([part.shape[0] for part in sent_rows])[:-1]
        back = group.exchange(np.split(done, cuts))
        y = np.zeros_like(z)
        for r, part in zip(rows, back, strict=True):
            y[r] += part
        return np.concatenate(group.gather(self._lifted(y)))

    def _owner(self, ids: Array) -> Array:
        """The share that has each expert: contiguous ranges, the first ones longer where they must be."""
        each, more = divmod(self.shape.num_experts, self.group.size)
        longer = more * (each + 1)
        return np.where(ids < longer, ids // (each + 1), more + (ids - longer) // max(1, each))

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
