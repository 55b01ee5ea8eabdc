"""What a scheduler needs of a model: run chunks of sequences, fork, remember a state, go back to it.

A *sequence* is the model's memory of one text: latent pages of the full-attention layers, which grow with
every token and can be shared, and the fixed-size state of the linear-attention layers, which cannot be cut
back: going back is only possible to a point where a `Snapshot` was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...sandbox.base.errors import ModelError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PAGE_TOKENS = 64
"""Tokens in one page of the latent cache."""

Want = Literal["last", "all", "none"]


class PoolExhausted(ModelError):
    """The page pool has no free page for the tokens of a step.

    The step changed nothing: the sequences are as they were before the call, so the scheduler may
    close, preempt or rewind one and try again.
    """

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(
            f"the cache needs {needed} more pages of {PAGE_TOKENS} tokens and {free} are free",
            hint="close a sequence, or give the cache more memory",
        )
        self.needed = needed
        self.free = free


class Snapshot(Protocol):
    """A point a sequence can go back to; also a start for other sequences (`Runner.restore`).

    It keeps its latent pages alive (shared, not copied) until it is closed.
    """

    @property
    def length(self) -> int:
        """Tokens the sequence held when it was taken."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that only this snapshot holds (the fixed-size state; shared pages do not count)."""
        ...

    @property
    def pages(self) -> int:
        """Latent pages it keeps alive."""
        ...

    def close(self) -> None:
        """Give the memory back. Closing twice is harmless."""
        ...


class SequenceState(Protocol):
    """The model's memory of one text."""

    @property
    def length(self) -> int:
        """Tokens taken in so far."""
        ...

    @property
    def pages(self) -> int:
        """Latent pages held (shared ones count)."""
        ...

    def fork(self) -> SequenceState:
        """A second sequence with the same past: pages shared copy-on-write, fixed-size state copied."""
        ...

    def snapshot(self) -> Snapshot:
        """Remember this point."""
        ...

    def rewind(self, snapshot: Snapshot) -> None:
        """Become what the snapshot holds (the snapshot stays usable)."""
        ...

    def close(self) -> None:
        """Give all memory back. Closing twice is harmless; a closed sequence cannot run."""
        ...


@dataclass(frozen=True)
class Chunk:
    """The next tokens of one sequence.

    Args:
        sequence: where they go; a sequence appears at most once in a step.
        tokens: i64[n], n >= 1.
        want: logits of the last token, of all tokens, or none.
        embeddings: f32[n, hidden] instead of the embedding table, for images (rows of NaN: use the table).
    """

    sequence: SequenceState
    tokens: Array
    want: Want = "last"
    embeddings: Array | None = None


class Runner(Protocol):
    """A loaded model."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_context(self) -> int: ...

    @property
    def pages_total(self) -> int: ...

    @property
    def pages_free(self) -> int: ...

    def new(self) -> SequenceState:
        """An empty sequence."""
        ...

    def restore(self, snapshot: Snapshot) -> SequenceState:
        """A new sequence that starts at a snapshot."""
        ...

    def forward(self, chunks: Sequence[Chunk]) -> list[Array | None]:
        """Take the chunks in, in one batch; lengths may differ.

        Returns:
            per chunk logits f32[1, vocab] ("last"), f32[n, vocab] ("all") or None ("none").

        Raises:
            PoolExhausted: before anything has changed.
            ModelError: a token id outside the vocabulary, a context longer than `max_context`,
                a closed sequence; also before anything has changed.
        """
        ...
