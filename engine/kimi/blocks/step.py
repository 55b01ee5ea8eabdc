"""What one forward pass carries from layer to layer besides the hidden rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ..pool import PagePool
from ..safetensors import Array
from ..state import KimiSequence


@dataclass(frozen=True)
class Span:
    """The rows start..stop of a step belong to one sequence, whose next position is `position`."""

    start: int
    stop: int
    sequence: KimiSequence
    position: int

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)


class Trace(Protocol):
    """Looks at what comes out of the layers; for verification."""

    def output(self, layer: int, kind: str, rows: Array) -> None:
        """`kind`: attn_out or mlp_out, f32[T, hidden], before the residual."""
        ...

    def selection(self, layer: int, positions: Array) -> None:
        """Positions that the last token of the step attends to, in falling order of score (i64[k])."""
        ...


@dataclass
class Step:
    """One forward pass."""

    spans: list[Span]
    pool: PagePool
    trace: Trace | None = None
    selected: dict[int, Array] = field(default_factory=dict[int, Array])
    """Per span the last indexer's choice, for layers that share it."""
