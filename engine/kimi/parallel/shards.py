"""A checkpoint of which one process sees its share: rows by head or width, columns where sums follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..checkpoint import Checkpoint
from ..safetensors import Array

_ROWS = frozenset(
    {"q_proj", "k_proj", "v_proj", "g_proj", "f_b_proj", "g_b_proj", "b_proj", "q_b_proj", "kv_b_proj"}
    | {"gate_proj", "up_proj", "q_conv1d", "k_conv1d", "v_conv1d", "dt_bias", "A_log"}
)
"""Split by output: heads lie one after another in them, as does the middle of a feed-forward layer."""
_COLUMNS = frozenset({"o_proj", "down_proj"})
"""Split by input: what comes out is a part of a sum over the processes."""


class ShardedCheckpoint(Checkpoint):
    """As `Checkpoint`, where the sizes that are asked for are those of the share."""

    def __init__(self, folder: Path, share: int, shares: int) -> None:
        super().__init__(folder)
        self._share, self._shares = share, shares

    def matrix(self, name: str, rows: int, columns: int) -> Array:
        if self._shares == 1:
            return super().matrix(name, rows, columns)
        kind = _kind(name)
        if kind == "lm_head":
            return np.array_split(super().matrix(name, rows, columns), self._shares)[self._share]
        if kind in _ROWS:
            whole = super().matrix(name, rows * self._shares, columns)
            return whole[self._share * rows : (self._share + 1) * rows]
        if kind in _COLUMNS:
            whole = super().matrix(name, rows, columns * self._shares)
            return np.ascontiguousarray(whole[:, self._share * columns : (self._share + 1) * columns])
        return super().matrix(name, rows, columns)

    def packed(self, name: str, rows: int, columns: int) -> tuple[Array, Array]:
        kind = _kind(f"{name}.weight")
        if self._shares > 1 and kind in _ROWS:
            own = slice(self._share * rows, (self._share + 1) * rows)
            codes, scales = super().packed(name, rows * self._shares, columns)
            return codes[own], scales[own]
        if self._shares > 1 and kind in _COLUMNS:
            if columns % 32:
                _, entry = self.place(f"{name}.weight_packed")
                raise self.wrong(entry, f"{columns} columns for each process; MXFP4 needs a multiple of 32")
            codes, scales = super().packed(name, rows, columns * self._shares)
            start, stop = self._share * columns, (self._share + 1) * columns
            return (
                np.ascontiguousarray(codes[:, start // 2 : stop // 2]),
                np.ascontiguousarray(scales[:, start // 32 : stop // 32]),
            )
        return super().packed(name, rows, columns)

    def vector(self, name: str, size: int, *, at_least: bool = False) -> Array:
        if self._shares > 1 and _kind(name) in _ROWS:
            whole = super().vector(name, size * self._shares, at_least=at_least)
            return np.ascontiguousarray(whole[self._share * size : (self._share + 1) * size])
        return super().vector(name, size, at_least=at_least)

    def taps(self, name: str, channels: int, width: int) -> Array:
        if self._shares > 1:
            whole = super().taps(name, channels * self._shares, width)
            return np.ascontiguousarray(whole[self._share * channels : (self._share + 1) * channels])
        return super().taps(name, channels, width)


def _kind(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]
