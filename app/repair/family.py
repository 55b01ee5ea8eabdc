"""What a mutation family is.

A family is one small class in one file of ``families/``; it is found by being there.
It looks at one node of a syntax tree and proposes edits to the text around it.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from .scope import ModuleView
from .source import Edit


class Harm(IntEnum):
    """How much of the program's intent an edit may take away; lower is preferred among plausible patches."""

    PRECISE = 0
    """Changes one thing into another of its kind."""
    LOOSENS = 1
    """Adds a case, a guard or a default: may hide an error."""
    REMOVES = 2
    """Takes functionality away."""


@dataclass(frozen=True)
class Proposal:
    """One way to change the program at a node.

    ``weight`` (0 to 1] is how likely this is among the family's own proposals;
    ``description`` completes the sentence "The fix ...", e.g. "replaces < by <=".
    """

    edits: tuple[Edit, ...]
    description: str
    weight: float = 1.0
    harm: Harm | None = None
    """None = the family's own."""


class Family(ABC):
    """Proposes edits of one kind."""

    name: ClassVar[str]
    """Stable identifier, e.g. ``comparison``; part of results."""
    prior: ClassVar[float]
    """How often bugs are of this kind, relative to other families; (0, 1]."""
    trust: ClassVar[float] = 0.9
    """How often its edits are right when they pass every test; (0, 1]. Edits that move or add whole
    statements pass by chance more often than those that exchange an operator."""
    harm: ClassVar[Harm] = Harm.PRECISE
    boosts: ClassVar[Mapping[str, float]] = {}
    """Exception class name -> factor on the prior when it ended a failing test."""
    at_fault: ClassVar[bool] = False
    """Its edits belong where the exception arose rather than on the way there."""
    fault: ClassVar[str]
    """What was wrong when this family's edit is the fix, e.g. "compared with the wrong operator"."""

    @abstractmethod
    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        """Edits at this very node (not below it: every node of the file is offered in turn)."""
        ...
