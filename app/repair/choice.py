"""Which of several plausible patches is right, and when the evidence cannot tell.

The rule: patches that take functionality away come after all others; then the score
decides, lowered for patches that build a constant of the failing test into the program.
Two patches cannot be told apart when they are of the same kind of harm and their scores
differ by less than 2 %: then the result is ``ambiguous``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .candidates import Candidate
from .family import Harm
from .source import ModuleSource

_TOO_CLOSE = 0.98
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

    ranked = tuple(sorted(plausible, key=order))
    ambiguous = False
    if len(ranked) > 1:
        first, second = ranked[0], ranked[1]
        same_kind = first.harm is second.harm
        ambiguous = same_kind and judged(second) >= _TOO_CLOSE * judged(first)
    return Choice(ranked, ambiguous)


def literals_of(text: str) -> frozenset[str]:
    """Numbers and short strings in a piece of source, without the ordinary ones."""
    return frozenset(match.group() for match in _LITERAL.finditer(text)) - _ORDINARY


def _new_literals(candidate: Candidate, source: ModuleSource) -> frozenset[str]:
    old = "".join(source.text[edit.start : edit.end] for edit in candidate.edits)
    new = "".join(edit.text for edit in candidate.edits)
    return literals_of(new) - literals_of(old)
