"""What plausible patches do on the same calls: which are the same in effect, and where they differ.

The calls are those that the tests make into the project, and neighbours of them (see
``repo/testing/inside/probing.py``). Calls on which every version raises are left out: what a
program does with arguments nobody would give it tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..repo.testing.warm import Probe, ProbedCall
from .candidates import Candidate

MOST_VERSIONS = 14
"""Plausible patches compared; the rest counts as unknown."""
_RAISES = "raises "
_ACCIDENTS = tuple(
    _RAISES + name
    for name in (
        "AttributeError",
        "IndexError",
        "KeyError",
        "NameError",
        "RecursionError",
        "TypeError",
        "UnboundLocalError",
        "ZeroDivisionError",
    )
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Behaviour:
    """Effects of patches; empty when nothing could be compared."""

    calls: tuple[ProbedCall, ...] = ()
    columns: tuple[tuple[Candidate, int], ...] = ()
    """Patches that were compared, with their place in ``ProbedCall.results``."""
    passing: frozenset[str] = frozenset()

    @classmethod
    def of(cls, candidates: Sequence[Candidate], probe: Probe | None, passing: frozenset[str]) -> Behaviour:
        if probe is None:
            return cls()
        made = [candidate for candidate, there in zip(candidates, probe.made, strict=True) if there]
        columns = tuple((candidate, index + 1) for index, candidate in enumerate(made))
        calls = tuple(
            call for call in probe.calls if not all(shown.startswith(_RAISES) for _, shown in call.results)
        )
        return cls(calls, columns, passing)

    def known(self, candidate: Candidate) -> bool:
        return bool(self.calls) and self._column(candidate) is not None

    def same(self, first: Candidate, second: Candidate) -> bool:
        """Whether no compared call tells them apart; False when one of them is unknown."""
        one, other = self._column(first), self._column(second)
        if one is None or other is None or not self.calls:
            return False
        return all(call.results[one][0] == call.results[other][0] for call in self.calls)

    def differ(self, first: Candidate, second: Candidate) -> bool:
        """Whether some compared call tells them apart."""
        return self.known(first) and self.known(second) and not self.same(first, second)

    def difference(self, first: Candidate, second: Candidate) -> str:
        """A call on which two patches differ, e.g. "`f(3)`: 4 here, 5 there"; empty when none is known."""
        one, other = self._column(first), self._column(second)
        if one is None or other is None:
            return ""
        telling = [call for call in self.calls if call.results[one][0] != call.results[other][0]]
        if not telling:
            return ""
        # Visible results first, then what tests really call, then the shortest.
        best = min(
            telling,
            key=lambda call: (
                call.results[one][1] == call.results[other][1],
                _RAISES in call.results[one][1] + call.results[other][1],
                call.neighbour,
                len(call.text),
            ),
        )
        mine, others = (_ADDRESS.sub("", best.results[column][1]) for column in (one, other))
        if mine == others:
            return f"`{best.text}` leaves its arguments or its object different"
        return f"`{best.text}`: {mine} here, {others} there"

    def collateral(self, candidate: Candidate) -> float:
        """Share of the calls of passing tests that come out otherwise than without the patch, 0 to 1."""
        column = self._column(candidate)
        if column is None:
            return 0.0
        counted = [call for call in self.calls if call.test in self.passing and not call.neighbour]
        changed = sum(call.results[column][0] != call.results[0][0] for call in counted)
        return changed / len(counted) if counted else 0.0

    def accidents(self, candidate: Candidate) -> int:
        """Neighbouring calls on which the patch raises by accident (nobody means a KeyError) and the program
        did not."""
        column = self._column(candidate)
        if column is None:
            return 0
        return sum(
            call.neighbour
            and call.results[column][1].startswith(_ACCIDENTS)
            and not call.results[0][1].startswith(_RAISES)
            for call in self.calls
        )

    def _column(self, candidate: Candidate) -> int | None:
        return next((column for each, column in self.columns if each is candidate), None)
