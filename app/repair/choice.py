"""Which of several plausible patches is right, and when the evidence cannot tell.

The rule: patches that take functionality away come after all others; then the score
decides, lowered for patches that build a constant of the failing test into the program.
Where scores differ by less than 2 %, the patch that changes clearly fewer characters is
preferred. Two patches cannot be told apart when they are of the same kind of harm, score
alike and are of like size: then the result is ``ambiguous``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .candidates import Candidate
from .family import Harm
from .source import ModuleSource

_TOO_CLOSE = 0.98
_LIKE_SIZE = 0.65
_FROM_THE_TEST = 0.4
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|'[^'\n]*'|\"[^\"\n]*\"")
_ORDINARY = frozenset(("0", "1", "-1", "2", '""', "''"))


@dataclass(frozen=True)
class Choice:
    """Plausible patches, best first; ``ambiguous`` when the first two cannot be told apart."""

    ranked: tuple[Candidate, ...]
    ambiguous: bool


def choose(
    plausible: Sequence[Candidate], sources: Mapping[str, ModuleSource], test_literals: Collection[str]
) -> Choice:
    """Orders plausible patches by the rule above; stable for equal ones."""

    def judged(candidate: Candidate) -> float:
        baked = _new_literals(candidate, sources[candidate.path]) & set(test_literals)
        return candidate.score * (_FROM_THE_TEST if baked else 1.0)

    def order(candidate: Candidate) -> tuple[bool, float]:
        return (candidate.harm is Harm.REMOVES, -judged(candidate))

    def alike(first: Candidate, second: Candidate) -> bool:
        return first.harm is second.harm and judged(second) >= _TOO_CLOSE * judged(first)

    ranked = sorted(plausible, key=order)
    if not ranked:
        return Choice((), False)
    rivals = [each for each in ranked if alike(ranked[0], each)]
    smallest = min(rivals, key=_size)
    ranked.remove(smallest)
    ranked.insert(0, smallest)
    ambiguous = any(_size(smallest) >= _LIKE_SIZE * _size(each) for each in rivals if each is not smallest)
    return Choice(tuple(ranked), ambiguous)


def literals_of(text: str) -> frozenset[str]:
    """Numbers and short strings in a piece of source, without the ordinary ones."""
    return frozenset(match.group() for match in _LITERAL.finditer(text)) - _ORDINARY


def _size(candidate: Candidate) -> int:
    """Characters taken out and put in."""
    return sum(edit.end - edit.start + len(edit.text) for edit in candidate.edits)


def _new_literals(candidate: Candidate, source: ModuleSource) -> frozenset[str]:
    old = "".join(source.text[edit.start : edit.end] for edit in candidate.edits)
    new = "".join(edit.text for edit in candidate.edits)
    return literals_of(new) - literals_of(old)
