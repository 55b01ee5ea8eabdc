"""Reuse of computed prefixes in a model whose fixed-size state cannot be cut back.

Texts are hashed in blocks of 64 tokens, each hash over the one before. A block alone is worth nothing
here: only where a snapshot of the whole state was kept can a new text start. Snapshots are found by the
hash of the full blocks before them and the hash of the rest.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ..kimi.protocol import PAGE_TOKENS, Snapshot
from .request import Array, Span

_KEY = os.urandom(16)
"""Hashes cannot be aimed at from outside, so equal hashes are equal texts."""


class Fingerprint:
    """Hashes of the beginnings of a growing text."""

    def __init__(self, spans: Sequence[Span] = ()) -> None:
        self._spans = spans
        self._chain = [blake2b(b"", digest_size=16, key=_KEY).digest()]

    def blocks(self, tokens: Array) -> list[bytes]:
        """Hash after 0, 1, ... full blocks of ``tokens`` (i64[n], which only grew since the last call)."""
        for number in range(len(self._chain) - 1, tokens.size // PAGE_TOKENS):
            first = number * PAGE_TOKENS
            self._chain.append(self._hash(self._chain[-1], tokens, first, first + PAGE_TOKENS))
        return self._chain

    def at(self, tokens: Array, length: int) -> tuple[bytes, bytes]:
        """The hash of the full blocks of the first ``length`` tokens, and the one of the rest."""
        number = length // PAGE_TOKENS
        block = self.blocks(tokens[:length])[number]
        return block, self._hash(block, tokens, number * PAGE_TOKENS, length)

    def _hash(self, before: bytes, tokens: Array, first: int, end: int) -> bytes:
        hashed = blake2b(before, digest_size=16, key=_KEY)
        hashed.update(np.ascontiguousarray(tokens[first:end], np.int64).tobytes())
        for span in self._spans:
            if span.first < end and span.first + len(span.rows) > first:
                hashed.update(span.digest + span.first.to_bytes(8, "little"))
        return hashed.digest()


@dataclass(frozen=True)
class Kept:
    """A state that texts can start from.

    Args:
        logits: f32[vocab] of the token after it, kept at the end of a prompt: the same prompt again
            needs no computation at all.
    """

    snapshot: Snapshot
    block: bytes
    rest: bytes
    logits: Array | None = None

    @property
    def length(self) -> int:
        return self.snapshot.length

    @property
    def nbytes(self) -> int:
        return self.snapshot.nbytes + (0 if self.logits is None else self.logits.nbytes)


class PrefixCache:
    """Snapshots, the least recently used of which go when they outgrow a number of bytes."""

    def __init__(self, budget: int) -> None:
        """``budget`` in bytes of fixed-size state and logits; the latent pages are the pool's affair
        (`drop_oldest` gives them back when it runs low). 0 keeps nothing."""
        self.budget = budget
        self.nbytes = 0
        self.evictions = 0
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._rests: dict[bytes, Counter[int]] = {}
        """Per hash of full blocks: how many snapshots end this many tokens later."""

    def __len__(self) -> int:
        return len(self._kept)

    def longest(self, tokens: Array, prints: Fingerprint) -> Kept | None:
        """The longest kept beginning of ``tokens`` that leaves something to compute, or has the logits."""
        chain = prints.blocks(tokens)
        for number in range(tokens.size // PAGE_TOKENS, -1, -1):
            for rest in sorted(self._rests.get(chain[number], ()), reverse=True):
                length = number * PAGE_TOKENS + rest
                if length > tokens.size:
                    continue
                kept = self._kept.get(prints.at(tokens, length)[1])
                if kept is not None and (length < tokens.size or kept.logits is not None):
                    self._kept.move_to_end(kept.rest)
                    return kept
        return None

    def holds(self, tokens: Array, prints: Fingerprint, *, logits: bool) -> bool:
        """Whether a snapshot of exactly these tokens is there (with logits, where they are wanted)."""
        kept = self._kept.get(prints.at(tokens, tokens.size)[1])
        if kept is None:
            return False
        self._kept.move_to_end(kept.rest)
        return not logits or kept.logits is not None

    def keep(self, tokens: Array, prints: Fingerprint, snapshot: Snapshot, logits: Array | None) -> None:
        """Takes the snapshot over (and closes it at once where it does not fit)."""
        block, rest = prints.at(tokens, tokens.size)
        entry = Kept(snapshot, block, rest, None if logits is None else np.array(logits, np.float32))
        if entry.nbytes > self.budget or snapshot.length != tokens.size:
            snapshot.close()
            return
        if rest in self._kept:
            self._drop(rest)
        self._kept[rest] = entry
        self._rests.setdefault(block, Counter())[tokens.size % PAGE_TOKENS] += 1
        self.nbytes += entry.nbytes
        while self.nbytes > self.budget:
            self.drop_oldest()

    def drop_oldest(self, but: Kept | None = None) -> bool:
        """Closes the least recently used snapshot (other than ``but``); False: there is none."""
        for rest, entry in self._kept.items():
            if entry is not but:
                self._drop(rest)
                self.evictions += 1
                return True
        return False

    def clear(self) -> None:
        while self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, rest: bytes) -> None:
        entry = self._kept.pop(rest)
        rests, size = self._rests[entry.block], entry.length % PAGE_TOKENS
        rests[size] -= 1
        if not rests[size]:
            del rests[size]
        if not rests:
            del self._rests[entry.block]
        self.nbytes -= entry.nbytes
        entry.snapshot.close()
