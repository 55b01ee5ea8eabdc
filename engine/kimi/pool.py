"""The page pool of the full-attention layers: latents, shared key channels, indexer keys; 64 tokens a page.

A page holds the same 64 tokens for every full-attention layer, so that a sequence needs one table. Pages are
counted by reference: forks and snapshots share them, and who writes into a shared page gets a copy first.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .config import KimiConfig
from .protocol import PAGE_TOKENS, PoolExhausted
from .safetensors import Array


class PagePool:
    """Memory for `pages` pages, claimed from the system as it is first written.

    Args:
        bf16: keep rows as bfloat16 instead of float32.
    """

    def __init__(self, config: KimiConfig, pages: int, *, bf16: bool) -> None:
        self.pages = pages
        self._latent: dict[int, Array] = {}
        self._keys: dict[int, Array] = {}
        mla, dsa = config.mla, config.dsa
        self.latent_width = mla.kv_lora_rank if mla else 0
        for layer in config.own_full_layers:
            assert mla is not None
            self._latent[layer] = _rows(pages, mla.kv_lora_rank + mla.pe_dim, bf16)
            if dsa is not None and layer in dsa.layers:
                self._keys[layer] = _rows(pages, dsa.head_dim, bf16)
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
        """[pages, 64, latent width] of one layer."""
        return self._latent[layer][:, :, : self.latent_width]

    def pe(self, layer: int) -> Array:
        """[pages, 64, shared key channels] of one layer."""
        return self._latent[layer][:, :, self.latent_width :]

    def keys(self, layer: int) -> Array:
        """[pages, 64, index head width] of one layer."""
        return self._keys[layer]

    def write_latents(self, layer: int, table: Array, position: int, rows: Array) -> None:
        """Put rows f32[n, latent + pe] at `position` and after."""
        _write(self._latent[layer], table, position, rows)

    def write_keys(self, layer: int, table: Array, position: int, rows: Array) -> None:
        """Put indexer keys f32[n, width] at `position` and after."""
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


def page_bytes(config: KimiConfig, *, bf16: bool) -> int:
    """Bytes one page takes over all layers."""
    width = 0
    if config.mla is not None:
        width += len(config.own_full_layers) * (config.mla.kv_lora_rank + config.mla.pe_dim)
    if config.dsa is not None:
        width += len(config.dsa.layers.intersection(config.own_layers)) * config.dsa.head_dim
    return PAGE_TOKENS * width * (2 if bf16 else 4)


def page_bytes_of(*groups: dict[int, Array]) -> int:
    """Bytes of one page in these arrays."""
    return sum(rows[0].nbytes for group in groups for rows in group.values())


def _rows(pages: int, width: int, bf16: bool) -> Array:
    if bf16:
        return np.zeros((pages, PAGE_TOKENS, width), np.uint16).view(ml_dtypes.bfloat16)
    return np.zeros((pages, PAGE_TOKENS, width), np.float32)


def _write(rows: Array, table: Array, position: int, values: Array) -> None:
    places = np.arange(position, position + values.shape[0])
    rows[table[places // PAGE_TOKENS], places % PAGE_TOKENS] = values
