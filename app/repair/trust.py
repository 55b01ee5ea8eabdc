"""How far a patch that passes every test can be believed.

By the kind of edit it is made of, and by how many tests that passed before run the edited lines:
each of them is one more chance to show a wrong patch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from .baseline import Baseline
from .candidates import Candidate
from .families import all_families
from .family import Family, Harm
from .language.proposals import FAMILY as PROPOSED
from .language.proposals import TRUST

_BUILT = {"synthesis": 0.5, PROPOSED: TRUST}
"""What belongs to no family: expressions built to pass, and lines of the language model."""
_HIDES = 0.9
"""Share for edits that add a case or catch an error: they may hide the fault instead of removing it."""
_DOUBT_LEFT = 0.85
"""Share of the doubt that is left after one more passing test through the edited lines."""


def trust_of(candidate: Candidate) -> float:
    """0 to 1; of a pair of edits, the product."""
    known = _by_name()
    kinds = math.prod(known.get(name, Family.trust) for name in candidate.family.split("+"))
    return kinds * (_HIDES if candidate.harm is Harm.LOOSENS else 1.0)


def belief(candidate: Candidate, baseline: Baseline) -> float:
    """0 to 1; the same with what the passing tests through its lines add."""
    return 1.0 - (1.0 - trust_of(candidate)) * _DOUBT_LEFT ** support(candidate, baseline)


def support(candidate: Candidate, baseline: Baseline) -> int:
    """How many passing tests run lines that the candidate edits."""
    through: set[str] = set()
    for part in candidate.parts:
        # Inserted lines have no tests of their own: those of the line before count.
        inserts = any(edit.start == edit.end for edit in part.edits)
        through.update(baseline.tests_through(part.path, range(part.line - inserts, part.end_line + 1)))
    return len(through)


@cache
def _by_name() -> Mapping[str, float]:
    return {**_BUILT, **{family.name: family.trust for family in all_families()}}
