"""Two edits that each turn a part of the failing tests green, and together all of them.

They are few and tell more than any other pair, so they are tried early. Two faults lie in two
functions: halves in one function are often two ways around one fault, and wait for their turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from .candidates import Candidate
from .family import Harm
from .joining import apart, joined
from .search import Partial

_TOGETHER = 0.7
"""A single edit that does the same is likelier right, also one that scores a little lower than two."""
_BREAKING = 0.4
_MOST_HALVES = 80


class Halves:
    """Makes the pairs, each of them once.

    Args:
        targets: what has to turn green.
        function_of: a candidate -> path and number of the function that it edits.
    """

    def __init__(self, targets: Collection[str], function_of: Callable[[Candidate], tuple[str, int]]) -> None:
        self._targets = frozenset(targets)
        self._function_of = function_of
        self._given: set[tuple[int, int]] = set()

    def pairs(
        self, partial: Sequence[Partial], limit: int, *, within_functions: bool = False
    ) -> list[Candidate]:
        """New pairs, likeliest first.

        Args:
            partial: what is known of partial candidates; earlier ones stay in their places.
            limit: pairs at most.
            within_functions: also two edits of one function.
        """
        numbers = sorted(range(len(partial)), key=lambda number: (-self._score(partial[number]), number))
        found: list[tuple[float, int, int]] = []
        for one, two in itertools.combinations(numbers[:_MOST_HALVES], 2):
            if self._fit(partial[one], partial[two], within_functions) and (one, two) not in self._given:
                score = _TOGETHER * (self._score(partial[one]) * self._score(partial[two])) ** 0.5
                found.append((score, one, two))
        found.sort(key=lambda each: (-round(each[0], 9), each[1:]))
        made: list[Candidate] = []
        for score, one, two in found[:limit]:
            self._given.add((one, two))
            made.append(joined(partial[one].candidate, partial[two].candidate, score))
        return made

    def _score(self, partial: Partial) -> float:
        return partial.candidate.score * (_BREAKING if partial.breaks else 1.0)

    def _fit(self, one: Partial, two: Partial, within_functions: bool) -> bool:
        if not one.green | two.green >= self._targets or one.green >= two.green or two.green >= one.green:
            return False
        if not within_functions and self._function_of(one.candidate) == self._function_of(two.candidate):
            return False
        removes = Harm.REMOVES in (one.candidate.harm, two.candidate.harm)
        return (within_functions or not removes) and apart(one.candidate, two.candidate)
