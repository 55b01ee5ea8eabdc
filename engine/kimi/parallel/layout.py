"""Who does what: the processes of a model as stages of layers times shares of heads and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....sandbox.base.errors import ConfigError
from ..config import KimiConfig


@dataclass(frozen=True)
class Layout:
    """``tensor`` processes share each layer, ``pipeline`` groups of them each hold a stage of layers."""

    tensor: int = 1
    pipeline: int = 1

    @property
    def size(self) -> int:
        """Processes."""
        return self.tensor * self.pipeline

    def stage(self, rank: int, layers: int) -> range:
        """The layers that a process holds; earlier stages have one more where they cannot be equal."""
        number = rank // self.tensor
        each, more = divmod(layers, self.pipeline)
        start = number * each + min(number, more)
        return range(start, start + each + (number < more))

    def share(self, rank: int) -> int:
        """Which share of its layers' heads and experts a process has."""
        return rank % self.tensor

    def peers(self, rank: int) -> list[int]:
        """The processes that share this one's layers, itself among them."""
        start = rank - self.share(rank)
        return list(range(start, start + self.tensor))

    def check(self, config: KimiConfig) -> None:
        """Raises ConfigError where the model cannot be laid out like this."""
        if self.tensor < 1 or self.pipeline < 1:
            raise ConfigError("a model needs at least one process")
        if self.pipeline > config.num_layers:
            raise ConfigError(f"{self.pipeline} stages are more than the model's {config.num_layers} layers")
        if self.pipeline > 1 and config.switches.index_share:
            raise ConfigError("layers that share an indexer's choice cannot be cut into stages")
        for what, count in _divided(config).items():
            if count % self.tensor:
                raise ConfigError(
                    f"{what} ({count}) cannot be shared out among {self.tensor} processes",
                    hint="use a number that divides it",
                )

    def config(self, config: KimiConfig, rank: int) -> KimiConfig:
        """The config of the part of the model that one process holds."""
        share = self.tensor
        moe = config.moe
        return replace(
            config,
            kda=None if config.kda is None else replace(config.kda, num_heads=config.kda.num_heads // share),
            mla=None if config.mla is None else replace(config.mla, num_heads=config.mla.num_heads // share),
            intermediate=config.intermediate // share,
            moe=None if moe is None else replace(moe, shared_inner=moe.num_shared * moe.inner // share),
            stage=self.stage(rank, config.num_layers),
        )


def _divided(config: KimiConfig) -> dict[str, int]:
    counts = {"the width of the dense layer": config.intermediate}
    if config.kda is not None:
        counts["the heads of linear attention"] = config.kda.num_heads
    if config.mla is not None:
        counts["the heads of full attention"] = config.mla.num_heads
    if config.moe is not None and config.moe.num_shared:
        counts["the width of the shared experts"] = config.moe.num_shared * config.moe.inner
    return counts
