"""Kimi delta attention: a short convolution, linear attention with a decay per channel, an output gate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....kernels import dense, kda
from ....kernels.mix import rms_norm
from ..config import KimiConfig
from ..linear import Chain, Linear, Loader
from ..safetensors import Array
from .numerics import sigmoid, softplus
from .step import Step

L2_EPS = np.float32(1e-6)
"""Added to the sum of squares (not to their mean) of q and k."""
CHUNKED_FROM = 16
"""Tokens from which the chunk form is used."""


@dataclass(frozen=True)
class KdaLayer:
    """Weights of one layer; `slot` is its place in the sequences' state."""

    slot: int
    heads: int
    dim: int
    eps: float
    bound: float | None
    qkv: tuple[Linear, Linear, Linear]
    taps: Array
    decay: Chain
    rate: Array
    """exp(A_log), f32[H, 1]."""
    dt_bias: Array
    """f32[H, K]."""
    beta: Linear
    gate: Linear | Chain
    o_norm: Array
    out: Linear

    @classmethod
    def load(cls, loader: Loader, config: KimiConfig, layer: int, slot: int) -> KdaLayer:
        kda_config = config.kda
        assert kda_config is not None
        heads, dim, width, hidden = kda_config.num_heads, kda_config.head_dim, kda_config.width, config.hidden
        base = f"model.layers.{layer}.self_attn"
        take = loader.checkpoint
        taps = [take.taps(f"{base}.{n}_conv1d.weight", width, kda_config.conv_size) for n in "qkv"]

        def low_rank(name: str) -> Chain:
            _, entry = take.place(take.first(f"{base}.{name}_a_proj.weight"))
            rank = entry.shape[0] if len(entry.shape) == 2 else dim
            return Chain(
                loader.linear(f"{base}.{name}_a_proj", rank, hidden, small=True),
                loader.linear(f"{base}.{name}_b_proj", width, rank, small=True),
            )

        return cls(
            slot=slot,
            heads=heads,
            dim=dim,
            eps=config.eps,
            bound=kda_config.gate_lower_bound,
            qkv=(
                loader.linear(f"{base}.q_proj", width, hidden),
                loader.linear(f"{base}.k_proj", width, hidden),
                loader.linear(f"{base}.v_proj", width, hidden),
            ),
            taps=np.ascontiguousarray(np.concatenate(taps)),
            decay=low_rank("f"),
            rate=np.exp(take.vector(f"{base}.A_log", heads, at_least=True))[:, None],
            dt_bias=take.vector(f"{base}.dt_bias", width).reshape(heads, dim),
            beta=loader.linear(f"{base}.b_proj", heads, hidden, small=True),
            gate=loader.linear(f"{base}.g_proj", width, hidden)
            if kda_config.full_rank_gate
            else low_rank("g"),
            o_norm=take.vector(f"{base}.o_norm.weight", dim),
            out=loader.linear(f"{base}.o_proj", hidden, width),
        )

    def __call__(self, x: Array, step: Step) -> Array:
        """x f32[T, hidden], the normed rows of all spans -> f32[T, hidden]."""
        tokens = x.shape[0]
        inputs = np.concatenate([project(x) for project in self.qkv], axis=1)
        g = self._log_decay(self.decay(x).reshape(tokens, self.heads, self.dim))
        beta = sigmoid(self.beta(x))
        o = np.empty((tokens, self.heads, self.dim), np.float32)
        for span in step.spans:
            memory, rows = span.sequence.memory, span.rows
            mixed, history = _short_conv(inputs[rows], self.taps, memory.history[self.slot])
            memory.history[self.slot] = history
            q, k, v = np.split(mixed.reshape(span.count, 3 * self.heads, self.dim), 3, axis=1)
            q, k = _unit(q) * np.float32(self.dim**-0.5), _unit(k)
            state = memory.recurrent[self.slot]
            if span.count == 1:
                o[rows] = kda.decode_step(state, q[0], k[0], v[0], g[rows][0], beta[rows][0])
            else:
                run = kda.chunked if span.count >= CHUNKED_FROM else kda.recurrent
                o[rows] = run(state, q, k, v, g[rows], beta[rows])
        o = rms_norm(o, self.o_norm, self.eps).reshape(tokens, self.heads * self.dim)
        return self.out(o * sigmoid(self.gate(x)))

    def _log_decay(self, f: Array) -> Array:
        if self.bound is not None:
            return np.float32(self.bound) * sigmoid(self.rate * (f + self.dt_bias))
        return -self.rate * softplus(f + self.dt_bias)


def _unit(z: Array) -> Array:
    return z / np.sqrt(np.einsum("thd,thd->th", z, z) + L2_EPS)[:, :, None]


def _short_conv(x: Array, taps: Array, history: Array) -> tuple[Array, Array]:
    """x [T, C], taps [C, W], history [W - 1, C]; as `dense.short_conv`, for any width."""
    width = taps.shape[1]
    if width == 4:
        return dense.short_conv(x, taps, history)
    held = np.concatenate((history, x))
    y = np.zeros_like(x)
    for tap in range(width):
        y += held[tap : tap + x.shape[0]] * taps[:, tap]
    return y * sigmoid(y), held[held.shape[0] - (width - 1) :].copy()
