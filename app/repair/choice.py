"""Which of several plausible patches is right, and when the evidence cannot tell.

The rule: patches that take functionality away come after all others; then the score decides,
weighed by how far the kind of edit can be believed, and lowered for patches that build a constant
of the failing test into the program, for those that change what passing tests see, and for those that
raise by accident where others do not. Patches that behave alike on every compared call
(``behaviour.py``) count as one, and the one that changes fewest characters stands for them.
Where scores differ by less than 2 %, the patch that changes clearly fewer characters is
preferred. The result is ``ambiguous`` when a patch of the same kind of harm scores so close to
the best that only chance would choose, or when one that does no more harm is seen to behave
otherwise scores within 2 % of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from .behaviour import Behaviour
from .candidates import Candidate
from .family import Harm
from .source import ModuleSource
from .trust import trust_of

_TOO_CLOSE = 0.98
"""Share of the best score at which another patch, of like size, cannot be told apart."""
_LIKE_SIZE = 0.65
_SURELY_DIFFERENT = 0.98
"""Share of the best score at which a patch that is seen to behave otherwise makes the choice a guess."""
_FROM_THE_TEST = 0.4
_COLLATERAL = 0.3
"""Part of the score that goes when every call of passing tests comes out otherwise."""
_FRAGILE = 0.6
"""Share of the score for a patch with accidents (``Behaviour.accidents``) that another one does not have."""
_LEAST_CONFIDENCE = 0.35
_LEAST_BELIEF = 0.6
"""Below these nothing is applied: the evidence does not tell whether the best patch is right."""
_CROWD, _CROWDED = 4, 0.1
"""More plausible patches than this, and a larger share of all that were tried: the tests ask too little."""
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|'[^'\n]*'|\"[^\"\n]*\"")
_ORDINARY = frozenset(("0", "1", "-1", "2", '""', "''"))


@dataclass(frozen=True)
class Choice:
    """Plausible patches, best first.

    ``ambiguous`` when the first cannot be told from another. ``confidence`` (0 to 1) is how far the
    best can be believed, times its share of the scores of all behaviours found (the strongest patch
    of each). ``doubtful`` when that is too little to apply even the only one, or when so many of the
    candidates pass that passing says little.
    """

    ranked: tuple[Candidate, ...]
    ambiguous: bool
    confidence: float = 1.0
    doubtful: bool = False


def choose(
    plausible: Sequence[Candidate],
    sources: Mapping[str, ModuleSource],
    test_literals: Collection[str],
    behaviour: Behaviour | None = None,
    believed: Callable[[Candidate], float] = trust_of,
    tried: int = 0,
) -> Choice:
    """Orders plausible patches by the rule above; stable for equal ones.

    ``believed``: how far each can be believed, 0 to 1 (``trust.belief``). ``tried``: out of how many
    candidates these are the plausible ones; 0 when that says nothing.
    """
    effects = behaviour or Behaviour()
    accidents = {id(each): effects.accidents(each) for each in plausible}
    fewest = min((accidents[id(each)] for each in plausible if effects.known(each)), default=0)
    scores = {
        id(candidate): candidate.score
        * believed(candidate)
        * (_FROM_THE_TEST if _new_literals(candidate, sources) & set(test_literals) else 1.0)
        * (1.0 - _COLLATERAL * effects.collateral(candidate))
        * (_FRAGILE if accidents[id(candidate)] > fewest else 1.0)
        for candidate in plausible
    }

    def judged(candidate: Candidate) -> float:
        return scores[id(candidate)]

    def alike(first: Candidate, second: Candidate) -> bool:
        return first.harm is second.harm and judged(second) >= _TOO_CLOSE * judged(first)

    ranked = sorted(plausible, key=lambda each: (each.harm is Harm.REMOVES, -judged(each)))
    if not ranked:
        return Choice((), False, 0.0)
    top = ranked[0]
    rivals = [each for each in ranked if alike(top, each)]
    smallest = min(rivals, key=_size)
    ranked.remove(smallest)
    ranked.insert(0, smallest)
    others = [each for each in ranked[1:] if not effects.same(smallest, each)]
    close = [each for each in others if each in rivals]
    ambiguous = any(_size(smallest) >= _LIKE_SIZE * _size(each) for each in close) or any(
        judged(each) >= _SURELY_DIFFERENT * judged(smallest)
        for each in others
        if each.harm <= smallest.harm and effects.differ(smallest, each)
    )
    rest = _distinct([each for each in others if each.harm <= smallest.harm], effects)
    confidence = believed(smallest) * _share(judged(smallest), sum(judged(each) for each in rest))
    crowded = len(plausible) > _CROWD and len(plausible) > _CROWDED * tried > 0
    doubtful = believed(smallest) < _LEAST_BELIEF or confidence < _LEAST_CONFIDENCE or crowded
    return Choice(tuple(ranked), ambiguous, round(confidence, 3), doubtful)


def _distinct(candidates: Sequence[Candidate], effects: Behaviour) -> list[Candidate]:
    """The first patch of each behaviour; what is not known counts for itself."""
    found: list[Candidate] = []
    for candidate in candidates:
        if not any(effects.same(candidate, each) for each in found):
            found.append(candidate)
    return found


def _share(own: float, other: float) -> float:
    return own / (own + other) if own + other else 0.0


def literals_of(text: str) -> frozenset[str]:
    """Numbers and short strings in a piece of source, without the ordinary ones."""
    return frozenset(match.group() for match in _LITERAL.finditer(text)) - _ORDINARY


def _size(candidate: Candidate) -> int:
    """Characters taken out and put in."""
    return sum(edit.end - edit.start + len(edit.text) for part in candidate.parts for edit in part.edits)


def _new_literals(candidate: Candidate, sources: Mapping[str, ModuleSource]) -> frozenset[str]:
    edits = [(sources[part.path].text, edit) for part in candidate.parts for edit in part.edits]
    old = "".join(text[edit.start : edit.end] for text, edit in edits)
    new = "".join(edit.text for _, edit in edits)
    return literals_of(new) - literals_of(old)
