"""The page pool of the full-attention layers: latents, shared key channels, indexer keys; 64 tokens a page.

A page holds the same 64 tokens for every full-attention layer, so that a sequence needs one table. Pages are
counted by reference: forks and snapshots share them, and who writes into a shared page gets a copy first.
Rows are float32, bfloat16, or the eight-bit layouts that `kernels.dsa.packed` describes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import ml_dtypes
import numpy as np

from ...kernels import dsa
from ...kernels.arrays import KernelError
from ...kernels.dsa import packed
from ...sandbox.base.errors import ConfigError, ModelError
from .config import KimiConfig
from .protocol import PAGE_TOKENS, PoolExhausted
from .safetensors import Array

CacheKind = Literal["f32", "bf16", "fp8"]
"""How rows are kept."""


class PagePool:
    """Memory for `pages` pages, claimed from the system as it is first written.

    Raises:
        ConfigError: rows of eight bits, for a model whose rows they cannot hold.
    """

    def __init__(self, config: KimiConfig, pages: int, cache: CacheKind) -> None:
        self.pages, self.cache = pages, cache
        self._latent: dict[int, Array] = {}
        self._keys: dict[int, Array] = {}
        mla, sparse = config.mla, config.dsa
        self.latent_width = mla.kv_lora_rank if mla else 0
        latent, key = _widths(config, cache)
        for layer in config.own_full_layers:
            self._latent[layer] = _rows(pages, latent, cache)
            if sparse is not None and layer in sparse.layers:
                self._keys[layer] = _rows(pages, key, cache)
        self._references = np.zeros(pages, np.int32)
        self._free = list(range(pages - 1, -1, -1))

    @property
    def free(self) -> int:
        """Pages nobody holds."""
        return len(self._free)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page over all layers."""
        return page_bytes_of(self._latent, self._keys)

    def latent_bytes(self, layer: int) -> int:
        """Bytes of one token's latent and shared key channels in a layer."""
        return self._latent[layer][0, 0].nbytes

    def key_bytes(self, layer: int) -> int:
        """Bytes of one token's indexer key in a layer."""
        return self._keys[layer][0, 0].nbytes

    def latents(self, layer: int) -> Array:
        """[pages, 64, latent width] of one layer; of eight bits: whole rows, shared key channels and all."""
        rows = self._latent[layer]
        return rows if self.cache == "fp8" else rows[:, :, : self.latent_width]

    def pe(self, layer: int) -> Array | None:
        """[pages, 64, shared key channels] of one layer; None where `latents` has them."""
        return None if self.cache == "fp8" else self._latent[layer][:, :, self.latent_width :]

    def keys(self, layer: int) -> Array:
        """[pages, 64, index head width] of one layer."""
        return self._keys[layer]

    def write_latents(self, layer: int, table: Array, position: int, rows: Array) -> None:
        """Put rows f32[n, latent + pe] at `position` and after."""
        if self.cache == "fp8":
            width = self.latent_width
            rows = _eight_bits(lambda: dsa.pack_latents(rows[:, :width], rows[:, width:]))
        _write(self._latent[layer], table, position, rows)

    def write_keys(self, layer: int, table: Array, position: int, rows: Array) -> None:
        """Put indexer keys f32[n, width] at `position` and after."""
        if self.cache == "fp8":
            rows = _eight_bits(lambda: dsa.pack_keys(rows))
        _write(self._keys[layer], table, position, rows)

    def take(self, count: int) -> list[int]:
        """Pages of one's own.

        Raises:
            PoolExhausted: fewer are free; nothing was taken.
        """
        if count > len(self._free):
            raise PoolExhausted(count, len(self._free))
        taken = [self._free.pop() for _ in range(count)]
        self._references[taken] = 1
        return taken

    def references(self, page: int) -> int:
        """How many hold this page."""
        return int(self._references[page])

    def retain(self, pages: Array) -> None:
        """One more holder for each of these pages (a table names a page once)."""
        self._references[pages] += 1

    def release(self, pages: Array) -> None:
        """One holder less for each of these pages."""
        self._references[pages] -= 1
        self._free.extend(int(page) for page in pages[self._references[pages] == 0])

    def copy(self, source: int, target: int) -> None:
        """Copy what one page holds in every layer."""
        for rows in (*self._latent.values(), *self._keys.values()):
            rows[target] = rows[source]


def page_bytes(config: KimiConfig, cache: CacheKind) -> int:
    """Bytes one page takes over all layers. Raises ConfigError as `PagePool`."""
    latent, key = _widths(config, cache)
    width = latent * len(config.own_full_layers)
    if config.dsa is not None:
        width += key * len(config.dsa.layers.intersection(config.own_layers))
    return PAGE_TOKENS * width * {"f32": 4, "bf16": 2, "fp8": 1}[cache]


def page_bytes_of(*groups: dict[int, Array]) -> int:
    """Bytes of one page in these arrays."""
    return sum(rows[0].nbytes for group in groups for rows in group.values())


def _widths(config: KimiConfig, cache: CacheKind) -> tuple[int, int]:
    """Columns of a latent row with its shared key channels, and of an indexer key (0: there are none)."""
    mla, sparse = config.mla, config.dsa
    latent = mla.kv_lora_rank + mla.pe_dim if mla else 0
    key = sparse.head_dim if sparse else 0
    if cache != "fp8" or mla is None:
        return latent, key
    if (mla.kv_lora_rank, mla.pe_dim) != (packed.LATENT, packed.SHARED):
        raise ConfigError(
            f"cached rows of eight bits hold {packed.LATENT} + {packed.SHARED} values, and this model's have "
            f"{mla.kv_lora_rank} + {mla.pe_dim}",
            hint="use a bf16 cache",
        )
    return packed.LATENT_BYTES, key + packed.SCALE_BYTES if key else 0


def _eight_bits(pack: Callable[[], Array]) -> Array:
    try:
        return pack()
    except KernelError as error:
        raise ModelError(f"the cache: {error}") from error


def _rows(pages: int, width: int, cache: CacheKind) -> Array:
    match cache:
        case "f32":
            return np.zeros((pages, PAGE_TOKENS, width), np.float32)
        case "bf16":
            return np.zeros((pages, PAGE_TOKENS, width), np.uint16).view(ml_dtypes.bfloat16)
        case "fp8":
            return np.zeros((pages, PAGE_TOKENS, width), np.uint8)


def _write(rows: Array, table: Array, position: int, values: Array) -> None:
    places = np.arange(position, position + values.shape[0])
    rows[table[places // PAGE_TOKENS], places % PAGE_TOKENS] = values
