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
from .group import ALONE, Group
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
    group: Group = ALONE
    whole_head: bool = True
    """False: each share of the group has a part of the vocabulary."""

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
        for number in config.own_layers:
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
            group=loader.group,
            whole_head=config.tied or loader.group.size == 1,
        )
        if config.stage is None and (unused := take.unused()):
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

    def __call__(self, x: Array | None, step: Step, wanted: Array) -> Array | None:
        """Rows x f32[T, hidden] through this process's layers; logits f32[n, vocab] of the rows `wanted`.

        Args:
            x: embedded tokens for the first stage, None for later ones.
            wanted: i64[n].

        Returns:
            None where nothing is wanted, and on all but the last stage.
        """
        config, eps = self.config, self.config.eps
        held, done = self._start(x)
        for number, layer in zip(config.own_layers, self.layers, strict=True):
            done = self._layer(number, layer, held, done, step)
        if not self.group.last:
            self.group.pass_rows(held[: done + 1])
            return None
        if not wanted.size:
            return None
        if self.output_mix is None:
            y = held[0, wanted]
        else:
            y = attn_res_mix(np.ascontiguousarray(held[: done + 1, wanted]), self.output_mix, eps)
        logits = self.head(rms_norm(y, self.norm, eps))
        return logits if self.whole_head else np.concatenate(self.group.gather(logits), axis=1)

    def _start(self, x: Array | None) -> tuple[Array, int]:
        """The candidates of the mixes, and which of them is the running sum (those before it are finished).

        With plain residuals there is only the sum.
        """
        given = self.group.take_rows() if x is None else x[None]
        block = self.config.block_size
        room = 1 if block is None else 1 + -(-self.config.num_layers // block)
        held = np.empty((room, *given.shape[1:]), np.float32)
        held[: given.shape[0]] = given
        return held, given.shape[0] - 1

    def _layer(self, number: int, layer: Layer, held: Array, done: int, step: Step) -> int:
        block, eps = self.config.block_size, self.config.eps
        if block is None:
            held[0] += self._attend(number, layer, held[0], step)
            held[0] += self._feed(number, layer, held[0], step)
            return 0
        mix = layer.attention_mix
        attended = self._attend(
            number, layer, held[done] if mix is None else attn_res_mix(held[: done + 1], mix, eps), step
        )
        if number % block == 0:
            done += 1
            held[done] = attended
        else:
            held[done] += attended
        assert layer.mlp_mix is not None
        held[done] += self._feed(number, layer, attn_res_mix(held[: done + 1], layer.mlp_mix, eps), step)
        return done

    def _attend(self, number: int, layer: Layer, h: Array, step: Step) -> Array:
        out = self.group.total(layer.attention(rms_norm(h, layer.attention_norm, self.config.eps), step))
        if step.trace is not None:
            step.trace.output(number, "attn_out", out)
        return out

    def _feed(self, number: int, layer: Layer, h: Array, step: Step) -> Array:
        out = layer.mlp(rms_norm(h, layer.mlp_norm, self.config.eps))
        if isinstance(layer.mlp, GatedMlp):
            out = self.group.total(out)
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
