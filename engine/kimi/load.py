"""From a checkpoint folder to a runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...sandbox.base.errors import ConfigError
from . import threads  # noqa: F401  # pyright: ignore[reportUnusedImport] - before numpy
from .checkpoint import Checkpoint
from .config import KimiConfig, load_config
from .experts import ExpertSource, ExpertTable, MappedExperts, NoExperts
from .group import ALONE, Group
from .linear import Loader
from .memory import available_memory
from .model import KimiModel
from .parallel.layout import Layout
from .parallel.shards import ShardedCheckpoint
from .pool import CacheKind, PagePool, page_bytes
from .protocol import PAGE_TOKENS
from .runner import KimiRunner
from .streaming import StreamedExperts

LOOKED_AT_ONCE = 64 << 20
"""Bytes of expert scales that are all looked at while loading; of more, each expert's at its first use."""
SEQUENCES = 64
"""Full-length sequences the cache is made for where memory allows it."""


@dataclass(frozen=True)
class LoadOptions:
    """How to load.

    Args:
        sets: ``key=value`` pairs that override config.json or set a switch.
        exact: float32 throughout; otherwise activations are rounded where that is faster.
        dense: "int8" rounds the dense matrices to eight bits while loading.
        cache: how latents and indexer keys are kept.
        cache_bytes: memory for pages; None: up to a quarter of what is free now.
        expert_cache: bytes for experts that are read from disk; None: mapped.
        check_scales: look at every expert's scales now, however many there are.
    """

    sets: Sequence[str] = ()
    exact: bool = False
    dense: Literal["stored", "int8"] = "stored"
    cache: CacheKind = "bf16"
    cache_bytes: int | None = None
    expert_cache: int | None = None
    check_scales: bool = False


@dataclass(frozen=True)
class Part:
    """Which part of a model a process loads.

    Args:
        layout: how all processes share the model.
        rank: this process.
        group: how it reaches the others.
        pages: pages of the cache; every process has as many.
    """

    layout: Layout
    rank: int
    group: Group
    pages: int


def load_runner(folder: Path, options: LoadOptions | None = None, part: Part | None = None) -> KimiRunner:
    """Load a checkpoint, or one process's part of it; its large tensors stay in the mapped files.

    Raises:
        ConfigError: config.json is missing or wrong, or an option does not fit.
        ModelError: the tensors are not what config.json describes.
    """
    options = options or LoadOptions()
    config = load_config(folder, options.sets)
    if part is None:
        checkpoint = Checkpoint(folder)
    else:
        layout, rank = part.layout, part.rank
        checkpoint = ShardedCheckpoint(folder, layout.share(rank), layout.tensor)
        config = layout.config(config, rank)
    _check_indexers(checkpoint, config)
    source: ExpertSource = NoExperts()
    if config.moe is not None:
        layers = [number for number in config.own_layers if config.moe.at(number)]
        width = config.hidden if config.moe.latent is None else config.moe.latent
        table = ExpertTable(checkpoint, config.moe, width, layers)
        table.check_all(None if options.check_scales else LOOKED_AT_ONCE)
        if options.expert_cache is not None:
            source = StreamedExperts(table, options.expert_cache)
        else:
            source = MappedExperts(table, advise=table.nbytes > available_memory())
    told = list(config.warnings)
    group = ALONE if part is None else part.group
    loader = Loader(checkpoint, options.exact, options.dense == "int8", group)
    model = KimiModel.load(loader, config, source, told.append)
    pages = cache_pages(config, [config], options) if part is None else part.pages
    runner = KimiRunner(model, source, _make_pool(config, pages, options.cache))
    runner.warnings = told
    runner.at_close.append(checkpoint.close)
    return runner


def window(folder: Path, options: LoadOptions | None = None) -> int:
    """Tokens of prompt and answer that a sequence can have: the model's, or what the cache has room for.

    Raises:
        ConfigError: see `load_runner`.
    """
    options = options or LoadOptions()
    config = load_config(folder, options.sets)
    return min(config.max_context, max(1, cache_pages(config, [config], options) - 2) * PAGE_TOKENS)


def _make_pool(config: KimiConfig, pages: int, cache: CacheKind) -> PagePool:
    try:
        return PagePool(config, pages, cache)
    except MemoryError as error:
        raise ConfigError(
            f"the system refuses {pages * page_bytes(config, cache)} bytes for the cache",
            hint="give the cache less memory",
        ) from error


def cache_pages(config: KimiConfig, parts: Sequence[KimiConfig], options: LoadOptions) -> int:
    """Pages of the cache; each takes memory in every part of the model.

    Raises:
        ConfigError: there is room for none.
    """
    size = max(1, sum(page_bytes(part, options.cache) for part in parts))
    one = -(-config.max_context // PAGE_TOKENS)
    if options.cache_bytes is not None:
        pages = options.cache_bytes // size
        if pages < 1:
            raise ConfigError(
                f"the cache has {options.cache_bytes} bytes and one page of {PAGE_TOKENS} tokens takes {size}"
            )
        return min(pages, SEQUENCES * one)
    return max(1, min(SEQUENCES * one, available_memory() // 4 // size))


def _check_indexers(checkpoint: Checkpoint, config: KimiConfig) -> None:
    """Indexer tensors change what a model computes: they are never ignored."""
    sparse = config.dsa.layers if config.dsa is not None else frozenset[int]()
    for layer in sorted(config.full_layers):
        name = f"model.layers.{layer}.self_attn.indexer.wk.weight"
        if checkpoint.has(name) and layer not in sparse:
            if config.dsa is None:
                raise ConfigError(
                    f"{checkpoint.folder}: there are indexer tensors and config.json has no dsa_config",
                    hint="use the config.json that belongs to these weights",
                )
            raise ConfigError(
                f"{checkpoint.folder}: layer {layer + 1} has indexer tensors and dsa_config does not name it"
            )
    owners = [n for n in sorted(sparse) if checkpoint.has(f"model.layers.{n}.self_attn.indexer.wk.weight")]
    if sparse and config.switches.index_share and (not owners or owners[0] != min(sparse)):
        raise ConfigError(
            f"{checkpoint.folder}: layer {min(sparse) + 1} has no indexer and none before it to share"
        )
