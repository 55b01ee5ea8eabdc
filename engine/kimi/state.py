"""Sequences and snapshots: a table of pages, and the fixed-size state of the linear-attention layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...sandbox.base.errors import ModelError
from .config import KimiConfig
from .pool import PagePool
from .protocol import PAGE_TOKENS, PoolExhausted
from .protocol import SequenceState as SequenceProtocol
from .protocol import Snapshot as SnapshotProtocol
from .safetensors import Array


@dataclass
class Memory:
    """State of all linear-attention layers; shared until somebody writes.

    `recurrent` f32[layers, H, K, V]; `history` f32[layers, taps - 1, 3 H K], the last inputs of the short
    convolutions of q, k and v.
    """

    recurrent: Array
    history: Array
    holders: int = 1

    @classmethod
    def empty(cls, config: KimiConfig) -> Memory:
        """What a sequence starts with: zeros."""
        kda = config.kda
        if kda is None:
            return cls(np.zeros((0, 1, 1, 1), np.float32), np.zeros((0, 0, 1), np.float32))
        layers = len(config.own_layers) - len(config.own_full_layers)
        recurrent = np.zeros((layers, kda.num_heads, kda.head_dim, kda.head_dim), np.float32)
        return cls(recurrent, np.zeros((layers, kda.conv_size - 1, 3 * kda.width), np.float32))

    @property
    def nbytes(self) -> int:
        return self.recurrent.nbytes + self.history.nbytes

    def shared(self) -> Memory:
        """The same memory with one more holder."""
        self.holders += 1
        return self

    def own(self) -> Memory:
        """Memory of one's own with the same content; itself where nobody else holds it."""
        if self.holders == 1:
            return self
        self.holders -= 1
        return Memory(self.recurrent.copy(), self.history.copy())

    def drop(self) -> None:
        """One holder less."""
        self.holders -= 1


class KimiSnapshot:
    """A point that sequences can go back to or start from."""

    def __init__(self, pool: PagePool, length: int, table: Array, memory: Memory) -> None:
        self.pool, self.length = pool, length
        self.table, self.memory = table, memory
        self.closed = False

    @property
    def nbytes(self) -> int:
        return 0 if self.closed else self.memory.nbytes

    @property
    def pages(self) -> int:
        return int(self.table.shape[0])

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.pool.release(self.table)
            self.memory.drop()
            self.table = self.table[:0]


class KimiSequence:
    """The model's memory of one text."""

    def __init__(self, pool: PagePool, memory: Memory, table: Array | None = None, length: int = 0) -> None:
        self.pool, self.memory, self.length = pool, memory, length
        held = np.zeros(0, np.int32) if table is None else table
        self._table = np.zeros(max(16, 2 * held.shape[0]), np.int32)
        self._table[: held.shape[0]] = held
        self.pages = int(held.shape[0])
        self.closed = False

    @property
    def table(self) -> Array:
        """i32[pages held]: the page of each 64 tokens."""
        return self._table[: self.pages]

    def fork(self) -> SequenceProtocol:
        self._check_open()
        self.pool.retain(self.table)
        return KimiSequence(self.pool, self.memory.shared(), self.table, self.length)

    def snapshot(self) -> SnapshotProtocol:
        self._check_open()
        self.pool.retain(self.table)
        return KimiSnapshot(self.pool, self.length, self.table.copy(), self.memory.shared())

    def rewind(self, snapshot: SnapshotProtocol) -> None:
        self._check_open()
        saved = _checked(snapshot, self.pool)
        self.pool.retain(saved.table)
        self.pool.release(self.table)
        self.memory.drop()
        self.memory, self.length = saved.memory.shared(), saved.length
        self.pages = 0
        self.append(saved.table)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.pool.release(self.table)
            self.memory.drop()
            self.memory = Memory(np.zeros((0, 1, 1, 1), np.float32), np.zeros((0, 0, 1), np.float32))
            self._table, self.pages = np.zeros(0, np.int32), 0

    @classmethod
    def restored(cls, snapshot: SnapshotProtocol, pool: PagePool) -> KimiSequence:
        """A new sequence that starts at a snapshot."""
        saved = _checked(snapshot, pool)
        pool.retain(saved.table)
        return cls(pool, saved.memory.shared(), saved.table, saved.length)

    def append(self, pages: Array) -> None:
        """Pages of its own at the end."""
        needed = self.pages + pages.shape[0]
        if needed > self._table.shape[0]:
            grown = np.zeros(2 * needed, np.int32)
            grown[: self.pages] = self.table
            self._table = grown
        self._table[self.pages : needed] = pages
        self.pages = needed

    def _check_open(self) -> None:
        if self.closed:
            raise ModelError("the sequence is closed", hint="start a new one")


def reserve(pool: PagePool, growth: list[tuple[KimiSequence, int]]) -> None:
    """Give each sequence pages of its own for so many more tokens, and state of its own.

    Raises:
        PoolExhausted: there are not enough; nothing has changed.
    """
    needed: list[int] = []
    copies = 0
    writers: dict[int, int] = {}
    for sequence, count in growth:
        needed.append(-(-(sequence.length + count) // PAGE_TOKENS) - sequence.pages)
        last = _open_page(sequence)
        if last is not None:
            before = writers.get(last, 0)
            writers[last] = before + 1
            copies += pool.references(last) - before > 1
    if sum(needed) + copies > pool.free:
        raise PoolExhausted(sum(needed) + copies, pool.free)
    for (sequence, _), count in zip(growth, needed, strict=True):
        last = _open_page(sequence)
        if last is not None and pool.references(last) > 1:
            (own,) = pool.take(1)
            pool.copy(last, own)
            pool.release(sequence.table[-1:].copy())
            sequence.table[-1] = own
        if count > 0:
            sequence.append(np.array(pool.take(count), np.int32))
        sequence.memory = sequence.memory.own()


def _open_page(sequence: KimiSequence) -> int | None:
    """The page that the next token goes into, where that page has tokens already."""
    if sequence.length % PAGE_TOKENS == 0:
        return None
    return int(sequence.table[sequence.length // PAGE_TOKENS])


def _checked(snapshot: SnapshotProtocol, pool: PagePool) -> KimiSnapshot:
    if not isinstance(snapshot, KimiSnapshot) or snapshot.pool is not pool:
        raise ModelError("the snapshot is of another model")
    if snapshot.closed:
        raise ModelError("the snapshot is closed")
    return snapshot
