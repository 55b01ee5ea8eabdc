"""How far a patch that passes every test can be believed, by the kind of edit it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from .candidates import Candidate
from .families import all_families
from .family import Family

_BUILT = {"synthesis": 0.5}
"""What belongs to no family: expressions built to pass."""


def trust_of(candidate: Candidate) -> float:
    """0 to 1; of a pair of edits, the product."""
    known = _by_name()
    return math.prod(known.get(name, Family.trust) for name in candidate.family.split("+"))


@cache
def _by_name() -> Mapping[str, float]:
    return {**_BUILT, **{family.name: family.trust for family in all_families()}}
