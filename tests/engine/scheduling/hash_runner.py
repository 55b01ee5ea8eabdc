"""A small deterministic model: its state is a hash of every token it took in, so a wrongly reused, shared or
rewound state changes all that follows. Pages are counted as the real pool counts them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from whimbrel.engine.kimi.protocol import PAGE_TOKENS, Chunk, PoolExhausted
from whimbrel.sandbox.base.errors import ModelError

_PRIME = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@dataclass
class Pool:
    total: int
    holders: dict[int, int] = field(default_factory=dict)
    next_id: int = 0

    @property
    def free(self) -> int:
        return self.total - len(self.holders)

    def take(self) -> int:
        self.next_id += 1
        self.holders[self.next_id] = 1
        return self.next_id

    def share(self, pages: list[int]) -> list[int]:
        for page in pages:
            self.holders[page] += 1
        return list(pages)

    def give(self, pages: list[int]) -> None:
        for page in pages:
            self.holders[page] -= 1
            if not self.holders[page]:
                del self.holders[page]


class HashState:
    def __init__(self, pool: Pool, value: int = 1, length: int = 0, pages: list[int] | None = None) -> None:
        self.pool, self.value, self.length, self.held = pool, value, length, pages or []
        self.closed = False
        self.nbytes = 1000

    @property
    def pages(self) -> int:
        return len(self.held)

    def fork(self) -> HashState:
        assert not self.closed, "a closed state was used"
        return HashState(self.pool, self.value, self.length, self.pool.share(self.held))

    snapshot = fork

    def rewind(self, snapshot: HashState) -> None:
        assert not self.closed and not snapshot.closed
        shared = self.pool.share(snapshot.held)
        self.pool.give(self.held)
        self.held, self.value, self.length = shared, snapshot.value, snapshot.length

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.pool.give(self.held)
            self.held = []

    def needs(self, count: int) -> int:
        copied = bool(self.length % PAGE_TOKENS) and self.pool.holders[self.held[-1]] > 1
        return -(-(self.length + count) // PAGE_TOKENS) - len(self.held) + copied

    def absorb(self, token: int) -> None:
        if self.length % PAGE_TOKENS == 0:
            self.held.append(self.pool.take())
        elif self.pool.holders[self.held[-1]] > 1:
            self.pool.give([self.held.pop()])
            self.held.append(self.pool.take())
        self.value = ((self.value ^ token) * _PRIME + self.length) & _MASK
        self.length += 1


class HashRunner:
    """``poison``: a batch that holds this token fails. ``nan``: its logits are no numbers after this token.
    ``period``: what it says repeats itself, so that guessing ahead works."""

    def __init__(
        self, *, vocab: int = 97, context: int = 4096, pages: int = 256,
        poison: int | None = None, nan: int | None = None, period: int = 0,
    ) -> None:  # fmt: skip
        self.vocab_size, self.max_context = vocab, context
        self.pool = Pool(pages)
        self.poison, self.nan, self.period = poison, nan, period
        self.steps: list[list[int]] = []
        """Tokens per sequence of each step."""

    @property
    def pages_total(self) -> int:
        return self.pool.total

    @property
    def pages_free(self) -> int:
        return self.pool.free

    @property
    def computed(self) -> int:
        return sum(map(sum, self.steps))

    def new(self) -> HashState:
        return HashState(self.pool)

    def restore(self, snapshot: HashState) -> HashState:
        return snapshot.fork()

    def forward(self, chunks: list[Chunk]) -> list[np.ndarray | None]:
        states = [chunk.sequence for chunk in chunks]
        assert len({id(state) for state in states}) == len(states)
        for chunk in chunks:
            if chunk.sequence.closed or chunk.sequence.length + len(chunk.tokens) > self.max_context:
                raise ModelError("a closed or too long sequence")
        needed = sum(state.needs(len(chunk.tokens)) for state, chunk in zip(states, chunks, strict=True))
        if needed > self.pool.free:
            raise PoolExhausted(needed, self.pool.free)
        self.steps.append([len(chunk.tokens) for chunk in chunks])
        rows = []
        for state, chunk in zip(states, chunks, strict=True):
            made = []
            for place, token in enumerate(chunk.tokens.tolist()):
                if token == self.poison:
                    raise RuntimeError("this text breaks the model")
                if chunk.embeddings is not None and not np.isnan(chunk.embeddings[place, 0]):
                    token = int(chunk.embeddings[place].sum() * 1000)
                state.absorb(token)
                made.append(self._logits(state, token))
            rows.append({"all": np.array(made), "last": np.array(made[-1:]), "none": None}[chunk.want])
        return rows

    def _logits(self, state: HashState, token: int) -> np.ndarray:
        logits = np.random.Generator(np.random.Philox(key=state.value)).normal(0, 2, self.vocab_size)
        if token == self.nan:
            logits[:] = np.nan
        if self.period and state.length % 11:
            logits[state.length % self.period] += 20
        return logits.astype(np.float32)
