"""Where the routed experts' matrices come from: the mapped file, or a bounded cache that reads ahead.

A checkpoint's experts are far larger than all its other weights and a token needs few of them, so they are
never copied as a whole. Mapped, the operating system keeps what fits. With a cache of its own size limit,
each expert is one contiguous read (where its tensors lie side by side), done by threads that follow the
router's choice while the experts before are computed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...kernels.moe import Expert, Weight
from ...sandbox.base.errors import ModelError
from .checkpoint import FLOATS, Checkpoint, check_scales
from .config import MoeConfig
from .safetensors import Array, Entry, SafetensorsFile, view

GAP = 4096
"""Bytes between the tensors of one expert that are read over rather than read around."""


@dataclass
class ExpertStats:
    """How often an expert was asked for, and where it came from."""

    hits: int = 0
    """It was in memory (mapped experts always count as such)."""
    misses: int = 0
    """It had to be read."""
    ahead: int = 0
    """Of the misses: the read had been done before it was asked for."""
    bytes_read: int = 0


class ExpertSource(Protocol):
    """Hands out experts; every method may be called by one thread at a time."""

    stats: ExpertStats
    at_once: int | None
    """Experts that a caller may hold at one time; None: any number."""

    def announce(self, layer: int, ids: list[int]) -> None:
        """These experts of a layer will be asked for, in this order."""
        ...

    def get(self, layer: int, expert: int) -> Expert:
        """The matrices of one expert."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """Where w1, w2 and w3 of one expert lie: per matrix one tensor (plain) or two (packed, scales)."""

    pieces: tuple[tuple[SafetensorsFile, Entry], ...]
    counts: tuple[int, int, int]

    @property
    def nbytes(self) -> int:
        return sum(entry.nbytes for _, entry in self.pieces)

    def span(self) -> tuple[SafetensorsFile, int, int] | None:
        """The file and the byte range that holds it all, where one read is enough."""
        file = self.pieces[0][0]
        if any(other is not file for other, _ in self.pieces):
            return None
        start = min(entry.offset for _, entry in self.pieces)
        stop = max(entry.offset + entry.nbytes for _, entry in self.pieces)
        return (file, start, stop) if stop - start <= self.nbytes + GAP else None


class ExpertTable:
    """The places of all experts, their shapes and dtypes checked.

    Raises:
        ModelError: a tensor is missing or is not what config.json describes.
    """

    def __init__(self, checkpoint: Checkpoint, config: MoeConfig, width: int, layers: list[int]) -> None:
        self.folder = checkpoint.folder
        shapes = ((config.inner, width), (width, config.inner), (config.inner, width))
        self.stored: dict[int, list[Stored]] = {}
        for layer in layers:
            base = f"model.layers.{layer}.block_sparse_moe.experts"
            if not checkpoint.has(f"{base}.0.w1.weight") and not checkpoint.has(f"{base}.0.w1.weight_packed"):
                other = f"model.layers.{layer}.mlp.experts"
                if checkpoint.has(f"{other}.0.w1.weight") or checkpoint.has(f"{other}.0.w1.weight_packed"):
                    base = other
            self.stored[layer] = [
                _locate(checkpoint, f"{base}.{e}", shapes) for e in range(config.num_experts)
            ]
        self._checked = {layer: bytearray(config.num_experts) for layer in layers}

    @property
    def nbytes(self) -> int:
        """Bytes of all experts together."""
        return sum(stored.nbytes for layer in self.stored.values() for stored in layer)

    @property
    def largest(self) -> int:
        """Bytes of the largest expert."""
        return max((s.nbytes for layer in self.stored.values() for s in layer), default=0)

    def build(self, layer: int, expert: int, arrays: list[Array]) -> Expert:
        """The expert of its arrays, in the order of `Stored.pieces`.

        Raises:
            ModelError: a scale is no number (looked at once for each expert).
        """
        stored = self.stored[layer][expert]
        look = not self._checked[layer][expert]
        matrices: list[Weight] = []
        place = 0
        for count in stored.counts:
            if count == 2:
                if look:
                    check_scales(self.folder, stored.pieces[place + 1][1].name, arrays[place + 1])
                matrices.append((arrays[place], arrays[place + 1]))
            else:
                plain = arrays[place]
                matrices.append(
                    plain if plain.dtype.name in ("float32", "bfloat16") else plain.astype(np.float32)
                )
            place += count
        self._checked[layer][expert] = 1
        return Expert(*matrices)

    def mapped(self, layer: int, expert: int) -> Expert:
        """The expert as views of the mapped file."""
        pieces = self.stored[layer][expert].pieces
        return self.build(layer, expert, [file.read(entry.name) for file, entry in pieces])

    def read(self, layer: int, expert: int) -> Expert:
        """The expert read into memory of its own.

        Raises:
            ModelError: the file ends early or cannot be read.
        """
        stored = self.stored[layer][expert]
        span = stored.span()
        if span is not None:
            file, start, stop = span
            buffer = _pread(file, start, stop - start).data
            arrays = [view(buffer, entry.offset - start, entry) for _, entry in stored.pieces]
        else:
            arrays = [
                view(_pread(file, entry.offset, entry.nbytes).data, 0, entry) for file, entry in stored.pieces
            ]
        return self.build(layer, expert, arrays)

    def check_all(self, at_most: int | None = None) -> None:
        """Look at every scale, unless they are more than `at_most` bytes.

        Raises:
            ModelError: one of them is no number.
        """
        scales = [
            piece
            for layer in self.stored.values()
            for stored in layer
            for piece in stored.pieces
            if piece[1].name.endswith("_scale")
        ]
        if at_most is not None and sum(entry.nbytes for _, entry in scales) > at_most:
            return
        for file, entry in scales:
            check_scales(self.folder, entry.name, file.read(entry.name))


class MappedExperts:
    """Experts as views of the mapped files; `advise`: tell the system ahead which pages will be read."""

    def __init__(self, table: ExpertTable, advise: bool) -> None:
        self.table, self.advise = table, advise
        self.stats = ExpertStats()
        self.at_once: int | None = None
        self._built: dict[tuple[int, int], Expert] = {}

    def announce(self, layer: int, ids: list[int]) -> None:
        if not self.advise:
            return
        for expert in ids:
            for file, entry in self.table.stored[layer][expert].pieces:
                file.will_need(entry)

    def get(self, layer: int, expert: int) -> Expert:
        self.stats.hits += 1
        found = self._built.get((layer, expert))
        if found is None:
            found = self._built[layer, expert] = self.table.mapped(layer, expert)
        return found

    def close(self) -> None:
        self._built.clear()


class NoExperts:
    """For models without experts."""

    def __init__(self) -> None:
        self.stats = ExpertStats()
        self.at_once: int | None = None

    def announce(self, layer: int, ids: list[int]) -> None:
        """There are none."""

    def get(self, layer: int, expert: int) -> Expert:
        raise ModelError(f"layer {layer} has no expert {expert}")

    def close(self) -> None:
        """Nothing is open."""


def _locate(checkpoint: Checkpoint, base: str, shapes: tuple[tuple[int, int], ...]) -> Stored:
    pieces: list[tuple[SafetensorsFile, Entry]] = []
    counts: list[int] = []
    for matrix, (rows, columns) in zip(("w1", "w2", "w3"), shapes, strict=True):
        name = f"{base}.{matrix}"
        if checkpoint.has(f"{name}.weight_packed"):
            if columns % 32:
                _, entry = checkpoint.place(f"{name}.weight_packed")
                raise checkpoint.wrong(
                    entry, f"{columns} columns by config.json; MXFP4 needs a multiple of 32"
                )
            pieces.append(checkpoint.typed(f"{name}.weight_packed", (rows, columns // 2), ("U8",)))
            pieces.append(checkpoint.typed(f"{name}.weight_scale", (rows, columns // 32), ("U8",)))
            counts.append(2)
        else:
            pieces.append(checkpoint.typed(f"{name}.weight", (rows, columns), FLOATS))
            counts.append(1)
    return Stored(tuple(pieces), (counts[0], counts[1], counts[2]))


def _read_into(descriptor: int, target: memoryview, offset: int) -> int:
    """Bytes read from `offset` into `target`; without a copy where the system can."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [target], offset)
    got = os.pread(descriptor, len(target), offset)
    target[: len(got)] = got
    return len(got)


def _pread(file: SafetensorsFile, offset: int, count: int) -> Array:
    buffer = np.empty(count, np.uint8)
    done = 0
    while done < count:
        try:
            got = _read_into(file.descriptor(), buffer.data[done:], offset + done)
        except OSError as error:
            raise ModelError(f"{file.path} cannot be read: {error.strerror or error}") from error
        if not got:
            raise ModelError(
                f"{file.path} became shorter while it was read", hint="leave it alone while it is used"
            )
        done += got
    return buffer
