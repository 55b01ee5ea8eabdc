"""The text model: embedding, layers with their residuals, head. Stateless: state comes with each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...kernels.mix import attn_res_mix, rms_norm
from .blocks.ffn import GatedMlp, MoeLayer
from .blocks.kda import KdaLayer
from .blocks.mla import MlaLayer
from .blocks.step import Step
from .config import KimiConfig
from .experts import ExpertSource
from .linear import Linear, Loader
from .safetensors import Array


@dataclass(frozen=True)
class Layer:
    """One layer; the two mix vectors are None where residuals are plain."""

    attention: KdaLayer | MlaLayer
    mlp: GatedMlp | MoeLayer
    attention_norm: Array
    mlp_norm: Array
    attention_mix: Array | None
    mlp_mix: Array | None


@dataclass(frozen=True)
class KimiModel:
    """All weights."""

    config: KimiConfig
    embedding: Array
    """[vocab, hidden] as stored."""
    layers: list[Layer]
    output_mix: Array | None
    norm: Array
    head: Linear

    @classmethod
    def load(
        cls, loader: Loader, config: KimiConfig, source: ExpertSource, told: Callable[[str], None]
    ) -> KimiModel:
        """Take the weights out of a checkpoint.

        Args:
            told: gets one line for each thing worth knowing (tensors that nothing uses).

        Raises:
            ModelError: a tensor is missing or is not what config.json describes.
        """
        take, hidden = loader.checkpoint, config.hidden
        layers: list[Layer] = []
        slot = 0
        for number in range(config.num_layers):
            base = f"model.layers.{number}"
            if config.is_full(number):
                attention: KdaLayer | MlaLayer = MlaLayer.load(loader, config, number)
            else:
                attention = KdaLayer.load(loader, config, number, slot)
                slot += 1
            if config.moe is not None and config.moe.at(number):
                mlp: GatedMlp | MoeLayer = MoeLayer.load(loader, config, number, source)
            else:
                mlp = GatedMlp.dense_layer(loader, config, number)
            before: Array | None = None
            after: Array | None = None
            if config.block_size is not None:
                after = _mix_vector(loader, f"{base}.mlp_res", hidden)
                if number:
                    before = _mix_vector(loader, f"{base}.self_attention_res", hidden)
                else:
                    # Layer 0 has nothing to mix yet; its vectors are in the file all the same.
                    take.skip(*_mix_names(loader, f"{base}.self_attention_res"))
            layers.append(
                Layer(
                    attention,
                    mlp,
                    take.vector(f"{base}.input_layernorm.weight", hidden),
                    take.vector(f"{base}.post_attention_layernorm.weight", hidden),
                    before,
                    after,
                )
            )
        mixed = config.block_size is not None
        head = "model.embed_tokens" if config.tied else "lm_head"
        model = cls(
            config=config,
            embedding=take.matrix("model.embed_tokens.weight", config.vocab_size, hidden),
            layers=layers,
            output_mix=_mix_vector(loader, "model.output_attn_res", hidden) if mixed else None,
            norm=take.vector("model.norm.weight", hidden),
            head=loader.linear(head, config.vocab_size, hidden),
        )
        if unused := take.unused():
            shown = ", ".join(unused[:8]) + (f" and {len(unused) - 8} more" if len(unused) > 8 else "")
            told(f"tensors that the model does not use: {shown}")
        return model

    def embed(self, tokens: Array, embeddings: Array | None) -> Array:
        """f32[n, hidden]; rows of `embeddings` that are not NaN take the place of the table's."""
        table = self.embedding[tokens].astype(np.float32)
        if embeddings is None:
            return table
        given = np.asarray(embeddings, np.float32)
        return np.where(np.isnan(given).all(axis=1, keepdims=True), table, given)

    def __call__(self, x: Array, step: Step, wanted: Array) -> Array | None:
        """Rows x f32[T, hidden] through all layers; logits f32[n, vocab] of the rows `wanted` (i64[n])."""
        config, eps = self.config, self.config.eps
        block = config.block_size
        if block is None:
            y = self._plain(x, step)[wanted]
        else:
            blocks = -(-config.num_layers // block)
            # Rows 0..done-1 are finished blocks, row `done` the running sum: together the candidates.
            held = np.empty((blocks + 1, *x.shape), np.float32)
            held[0] = x
            done = 0
            for number, layer in enumerate(self.layers):
                h = (
                    held[0]
                    if layer.attention_mix is None
                    else attn_res_mix(held[: done + 1], layer.attention_mix, eps)
                )
                attended = self._attend(number, layer, h, step)
                if number % block == 0:
                    done += 1
                    held[done] = attended
                else:
                    held[done] += attended
                assert layer.mlp_mix is not None
                held[done] += self._feed(
                    number, layer, attn_res_mix(held[: done + 1], layer.mlp_mix, eps), step
                )
            if not wanted.size:
                return None
            assert self.output_mix is not None
            y = attn_res_mix(np.ascontiguousarray(held[: done + 1, wanted]), self.output_mix, eps)
        return self.head(rms_norm(y, self.norm, eps)) if wanted.size else None

    def _plain(self, x: Array, step: Step) -> Array:
        x = x.copy()
        for number, layer in enumerate(self.layers):
            x += self._attend(number, layer, x, step)
            x += self._feed(number, layer, x, step)
        return x

    def _attend(self, number: int, layer: Layer, h: Array, step: Step) -> Array:
        out = layer.attention(rms_norm(h, layer.attention_norm, self.config.eps), step)
        if step.trace is not None:
            step.trace.output(number, "attn_out", out)
        return out

    def _feed(self, number: int, layer: Layer, h: Array, step: Step) -> Array:
        out = layer.mlp(rms_norm(h, layer.mlp_norm, self.config.eps))
        if step.trace is not None:
            step.trace.output(number, "mlp_out", out)
        return out


def _mix_names(loader: Loader, base: str) -> tuple[str, str]:
    first = loader.checkpoint.first
    return (
        first(f"{base}_norm.weight", f"{base}.norm_weight", f"{base}.norm.weight"),
        first(f"{base}_proj.weight", f"{base}.proj_weight", f"{base}.proj.weight"),
    )


def _mix_vector(loader: Loader, base: str, hidden: int) -> Array:
    norm, proj = _mix_names(loader, base)
    return loader.checkpoint.vector(norm, hidden) * loader.checkpoint.vector(proj, hidden)
