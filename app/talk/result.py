"""What a turn gave: the fields of a fix-issue result, the answer, and what the tests showed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..fix.result import FixResult


@dataclass
class TurnResult(FixResult):
    """``status`` is ``answered`` when the model ended with an answer; ``patch`` is then what was changed.

    Nothing here says that a change is right: ``tests`` tells which tests ran, and on which tree.
    """

    answer: str = ""
    continued: bool = False
    moved_on: bool = False
    """The repository was changed outside the conversation since the turn before."""
    tests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Of every test run: evidence row, exit code, counts, and whether the tree is the final one."""
    verified: bool = False
    """Always false: only fix-issue compares tests before and after."""
