"""What a part of a model needs of the other parts; for a whole model on one process, nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .safetensors import Array


class Group(Protocol):
    """The processes that run one model together, seen from one of them."""

    @property
    def rank(self) -> int:
        """Which share of its layers this process has."""
        ...

    @property
    def size(self) -> int:
        """How many shares each layer has."""
        ...

    @property
    def first(self) -> bool:
        """Whether this process holds the first layers."""
        ...

    @property
    def last(self) -> bool:
        """Whether it holds the last ones."""
        ...

    def total(self, part: Array) -> Array:
        """The sum of the parts of all shares, on every one."""
        ...

    def gather(self, part: Array) -> list[Array]:
        """The parts of all shares, in order, on every one."""
        ...

    def exchange(self, outgoing: Sequence[Array]) -> list[Array]:
        """Gives one array to each share; what each gave to this one, in order."""
        ...

    def take_rows(self) -> Array:
        """What the stage before passed on."""
        ...

    def pass_rows(self, rows: Array) -> None:
        """To the stage after."""
        ...


class Alone:
    """A whole model on one process."""

    rank, size, first, last = 0, 1, True, True

    def total(self, part: Array) -> Array:
        return part

    def gather(self, part: Array) -> list[Array]:
        return [part]

    def exchange(self, outgoing: Sequence[Array]) -> list[Array]:
        return list(outgoing)

    def take_rows(self) -> Array:
        raise AssertionError("the first stage has none before it")

    def pass_rows(self, rows: Array) -> None:
        raise AssertionError("the last stage has none after it")


ALONE = Alone()
