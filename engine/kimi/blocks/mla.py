"""Latent attention without positions, in the absorbed form: keys and values stay in the latent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....kernels import dsa
from ....kernels.mix import rms_norm
from ..config import KimiConfig, MlaConfig
from ..linear import Linear, Loader
from ..safetensors import Array
from ..threads import per_head
from .indexer import Indexer
from .numerics import sigmoid
from .step import Span, Step

TOKENS_AT_ONCE = 256
"""Query tokens whose absorbed form [tokens, heads, latent] is held at one time."""


@dataclass(frozen=True)
class MlaLayer:
    """Weights of one layer."""

    layer: int
    shape: MlaConfig
    latent_eps: float
    q_down: Linear | None
    q_norm: Array | None
    q_up: Linear
    """From the query latent, or from the hidden rows where there is none."""
    kv_down: Linear
    kv_norm: Array
    key_up: Array
    """f32[H, nope, latent]."""
    value_up: Array
    """f32[H, latent, v]."""
    gate: Linear | None
    out: Linear
    sparse: bool
    indexer: Indexer | None
    """None in a sparse layer: it takes the selection of the layer before."""

    @classmethod
    def load(cls, loader: Loader, config: KimiConfig, layer: int) -> MlaLayer:
        mla, hidden = config.mla, config.hidden
        assert mla is not None
        base = f"model.layers.{layer}.self_attn"
        take = loader.checkpoint
        heads, rank = mla.num_heads, mla.q_lora_rank
        kv_b = loader.widened(f"{base}.kv_b_proj", heads * (mla.nope_dim + mla.v_dim), mla.kv_lora_rank)
        kv_b = kv_b.reshape(heads, mla.nope_dim + mla.v_dim, mla.kv_lora_rank)
        q_rows = heads * (mla.nope_dim + mla.pe_dim)
        q_name, q_columns = ("q_proj", hidden) if rank is None else ("q_b_proj", rank)
        sparse = config.dsa is not None and layer in config.dsa.layers
        return cls(
            layer=layer,
            shape=mla,
            latent_eps=config.switches.latent_norm_eps,
            q_down=None if rank is None else loader.linear(f"{base}.q_a_proj", rank, hidden),
            q_norm=None if rank is None else take.vector(f"{base}.q_a_layernorm.weight", rank),
            q_up=loader.linear(f"{base}.{q_name}", q_rows, q_columns),
            kv_down=loader.linear(f"{base}.kv_a_proj_with_mqa", mla.kv_lora_rank + mla.pe_dim, hidden),
            kv_norm=take.vector(f"{base}.kv_a_layernorm.weight", mla.kv_lora_rank),
            key_up=np.ascontiguousarray(kv_b[:, : mla.nope_dim]),
            value_up=np.ascontiguousarray(kv_b[:, mla.nope_dim :].transpose(0, 2, 1)),
            gate=loader.linear(f"{base}.g_proj", heads * mla.v_dim, hidden) if mla.output_gate else None,
            out=loader.linear(f"{base}.o_proj", hidden, heads * mla.v_dim),
            sparse=sparse,
            indexer=Indexer.load(loader, config, layer) if sparse else None,
        )

    def __call__(self, x: Array, step: Step) -> Array:
        """x f32[T, hidden], the normed rows of all spans -> f32[T, hidden]."""
        mla = self.shape
        latent = x
        if self.q_down is not None:
            assert self.q_norm is not None
            latent = rms_norm(self.q_down(x), self.q_norm, self.latent_eps)
        q = self.q_up(latent).reshape(-1, mla.num_heads, mla.nope_dim + mla.pe_dim)
        rows = self.kv_down(x)
        width = mla.kv_lora_rank
        rows[:, :width] = rms_norm(np.ascontiguousarray(rows[:, :width]), self.kv_norm, self.latent_eps)
        o = np.empty((x.shape[0], mla.num_heads * mla.v_dim), np.float32)
        for number, span in enumerate(step.spans):
            step.pool.write_latents(self.layer, span.sequence.table, span.position, rows[span.rows])
            selected = self._select(x, latent, span, step, number) if self.sparse else None
            for start in range(span.start, span.stop, TOKENS_AT_ONCE):
                part = slice(start, min(start + TOKENS_AT_ONCE, span.stop))
                inside = slice(part.start - span.start, part.stop - span.start)
                chosen = None if selected is None else selected[inside]
                o[part] = self._attend(q[part], span, inside.start, chosen, step)
        if self.gate is not None:
            o *= sigmoid(self.gate(x))
        return self.out(o)

    def _attend(self, q: Array, span: Span, start: int, chosen: Array | None, step: Step) -> Array:
        """Attention of q f32[T, H, nope + pe], the span's tokens from `start` on -> f32[T, H v]."""
        mla = self.shape
        absorbed = per_head(q[:, :, : mla.nope_dim].transpose(1, 0, 2), self.key_up).transpose(1, 0, 2)
        q_pe = np.ascontiguousarray(q[:, :, mla.nope_dim :])
        q_latent = np.ascontiguousarray(absorbed)
        latents, pe = step.pool.latents(self.layer), step.pool.pe(self.layer)
        table, first = span.sequence.table, span.position + start
        length = span.position + start + q.shape[0]
        if chosen is None:
            sums = dsa.dense_attention(
                q_latent, q_pe, latents, pe, first, mla.scale, table=table, length=length
            )
        else:
            sums = dsa.sparse_attention(
                q_latent, q_pe, latents, pe, chosen, mla.scale, table=table, length=length
            )
        values = per_head(sums.transpose(1, 0, 2), self.value_up).transpose(1, 0, 2)
        return values.reshape(q.shape[0], -1)

    def _select(self, x: Array, latent: Array, span: Span, step: Step, number: int) -> Array | None:
        """i64[T, top_k] for a span whose context is longer than top_k; None: attend to everything."""
        length = span.position + span.count
        if self.indexer is None:
            return step.selected.get(number)
        indexer = self.indexer
        positions = np.arange(span.position, length)
        keys = indexer.keys(x[span.rows], positions)
        step.pool.write_keys(self.layer, span.sequence.table, span.position, keys)
        step.selected.pop(number, None)
        if length <= indexer.top_k and step.trace is None:
            return None
        selected = indexer.select(
            indexer.queries(latent[span.rows], positions),
            indexer.weights(x[span.rows]),
            step.pool.keys(self.layer),
            span.sequence.table,
            span.position,
            length,
        )
        if step.trace is not None:
            last = selected[-1]
            step.trace.selection(self.layer, last[last >= 0])
            if length <= indexer.top_k:
                return None
        step.selected[number] = selected
        return selected
