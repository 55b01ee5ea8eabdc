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
_LEAST_CONFIDENCE = 0.38
_LEAST_BELIEF = 0.6
"""Below these nothing is applied: the evidence does not tell whether the best patch is right."""
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|'[^'\n]*'|\"[^\"\n]*\"")
_ORDINARY = frozenset(("0", "1", "-1", "2", '""', "''"))


@dataclass(frozen=True)
class Choice:
    """Plausible patches, best first.

    ``ambiguous`` when the first cannot be told from another. ``confidence`` (0 to 1) is how far the
    best can be believed, times the share that the ways to do what it does have in the scores of all
    that passed. ``doubtful`` when that is too little to apply even the only one.
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
) -> Choice:
    """Orders plausible patches by the rule above; stable for equal ones.

    ``believed``: how far each can be believed, 0 to 1 (``trust.belief``).
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
    mine = [each for each in ranked if each is smallest or effects.same(smallest, each)]
    theirs = _behaviours([each for each in others if each.harm <= smallest.harm], effects)
    # Of those that were not compared nobody knows whether they are more than one.
    theirs = [each for number, each in enumerate(theirs) if not number or effects.differ(smallest, each[0])]
    share = _share(_mass([mine], judged), _mass(theirs, judged))
    confidence = believed(smallest) * share
    doubtful = believed(smallest) < _LEAST_BELIEF or confidence < _LEAST_CONFIDENCE
    return Choice(tuple(ranked), ambiguous, round(confidence, 3), doubtful)


def _behaviours(candidates: Sequence[Candidate], effects: Behaviour) -> list[list[Candidate]]:
    """The patches by what they do, each list best first; what is not known stands alone."""
    found: list[list[Candidate]] = []
    for candidate in candidates:
        alike = next((each for each in found if effects.same(candidate, each[0])), None)
        if alike is None:
            found.append([candidate])
        else:
            alike.append(candidate)
    return found


def _mass(behaviours: Sequence[Sequence[Candidate]], judged: Callable[[Candidate], float]) -> float:
    """The scores of all ways to some behaviours.

    The same kind of edit at the same line is one way to a behaviour. A guard or a default is one way
    whatever it gives: `return 0` and `return None` are no two reasons to doubt.
    """
    ways: dict[tuple[str, str, int, int], float] = {}
    for number, behaviour in enumerate(behaviours):
        for each in behaviour:
            of = -1 if each.harm is Harm.LOOSENS else number
            ways.setdefault((each.family, each.path, each.line, of), judged(each))
    return sum(ways.values())


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
