"""The runner: checks a step, gives it memory, runs the model; sequences stay whole when something fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...sandbox.base.errors import ModelError
from .blocks.ffn import MoeLayer
from .blocks.step import Span, Step, Trace
from .config import KimiConfig
from .experts import ExpertSource
from .model import KimiModel
from .pool import PagePool
from .protocol import Chunk, SequenceState, Snapshot
from .safetensors import Array
from .state import KimiSequence, Memory, reserve


class KimiRunner:
    """A loaded model with its caches; one thread at a time.

    A step either happens or raises. Errors that are found before the model runs (arguments, memory) change
    nothing. When the model itself fails in the middle (a damaged expert, an interrupt), the sequences of
    that step are closed, since their states are no longer of one length; others are as they were.
    """

    def __init__(self, model: KimiModel, source: ExpertSource, pool: PagePool) -> None:
        self.model, self.source, self.pool = model, source, pool
        self.config: KimiConfig = model.config
        self._zero = Memory.empty(self.config)
        """What every new sequence starts with; copied when first written."""
        self.warnings: list[str] = []
        self.at_close: list[Callable[[], None]] = [source.close]

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def hidden_size(self) -> int:
        return self.config.hidden

    @property
    def max_context(self) -> int:
        return self.config.max_context

    @property
    def pages_total(self) -> int:
        return self.pool.pages

    @property
    def pages_free(self) -> int:
        return self.pool.free

    @property
    def state_bytes(self) -> int:
        """Fixed-size state of one sequence, beside its pages."""
        return self._zero.nbytes

    def expert_use(self) -> dict[int, Array]:
        """Per layer with experts: i64[E], how often each was chosen since loading."""
        mlps = enumerate(layer.mlp for layer in self.model.layers)
        return {number: mlp.used for number, mlp in mlps if isinstance(mlp, MoeLayer)}

    def new(self) -> SequenceState:
        return KimiSequence(self.pool, self._zero.shared())

    def restore(self, snapshot: Snapshot) -> SequenceState:
        return KimiSequence.restored(snapshot, self.pool)

    def close(self) -> None:
        """Stop what reads ahead and close the files; the runner cannot be used after."""
        while self.at_close:
            self.at_close.pop(0)()

    def forward(self, chunks: Sequence[Chunk], *, trace: Trace | None = None) -> list[Array | None]:
        """As `Runner.forward`; `trace` sees what comes out of every layer."""
        if not chunks:
            return []
        spans = self._spans(chunks)
        reserve(self.pool, [(span.sequence, span.count) for span in spans])
        try:
            rows = [
                self.model.embed(np.asarray(chunk.tokens, np.int64), chunk.embeddings) for chunk in chunks
            ]
            wanted = [_wanted(span, chunk) for span, chunk in zip(spans, chunks, strict=True)]
            x = rows[0] if len(rows) == 1 else np.concatenate(rows)
            logits = self.model(x, Step(spans, self.pool, trace), np.concatenate(wanted))
        except BaseException:
            for span in spans:
                span.sequence.close()
            raise
        results: list[Array | None] = []
        place = 0
        for span, want in zip(spans, wanted, strict=True):
            span.sequence.length += span.count
            results.append(logits[place : place + want.size] if logits is not None and want.size else None)
            place += want.size
        return results

    def _spans(self, chunks: Sequence[Chunk]) -> list[Span]:
        spans: list[Span] = []
        seen: set[int] = set()
        start = 0
        for chunk in chunks:
            sequence = chunk.sequence
            if not isinstance(sequence, KimiSequence) or sequence.pool is not self.pool:
                raise ModelError("the sequence is of another model")
            if sequence.closed:
                raise ModelError("the sequence is closed", hint="start a new one")
            if id(sequence) in seen:
                raise ModelError("a sequence is twice in one step")
            seen.add(id(sequence))
            self._check(chunk, sequence)
            count = int(chunk.tokens.shape[0])
            spans.append(Span(start, start + count, sequence, sequence.length))
            start += count
        return spans

    def _check(self, chunk: Chunk, sequence: KimiSequence) -> None:
        tokens = chunk.tokens
        if tokens.ndim != 1 or not tokens.size or tokens.dtype.kind not in "iu":
            raise ModelError("a chunk needs at least one token, as whole numbers in one row")
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.vocab_size:
            wrong = low if low < 0 else high
            raise ModelError(f"the token {wrong} is outside the vocabulary of {self.vocab_size}")
        if sequence.length + tokens.size > self.max_context:
            raise ModelError(
                f"{sequence.length + tokens.size} tokens are more than the model's {self.max_context}",
                hint="shorten the prompt",
            )
        given = chunk.embeddings
        if given is not None and given.shape != (tokens.size, self.hidden_size):
            raise ModelError(
                f"embeddings of shape {list(given.shape)} for {tokens.size} tokens of {self.hidden_size}"
            )


def _wanted(span: Span, chunk: Chunk) -> Array:
    match chunk.want:
        case "all":
            return np.arange(span.start, span.stop)
        case "last":
            return np.array([span.stop - 1])
        case _:
            return np.zeros(0, np.int64)
