"""Coverage spectra: how strongly executed lines and branches go with failure.

Which tests ran a line is one integer with a bit per test, so that statements, branches and
functions are joined by ``|``, ``&`` and a count of bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Coverage = Mapping[str, Mapping[str, frozenset[int]]]


@dataclass(frozen=True)
class Counts:
    """How many failing and passing tests ran something."""

    failing: int = 0
    passing: int = 0


def ochiai(counts: Counts, total_failing: int) -> float:
    """ef / sqrt(F * (ef + ep)); Ochiai coefficient as used by Abreu et al. (2006). 0 to 1."""
    covered = counts.failing + counts.passing
    if not total_failing or not covered:
        return 0.0
    return counts.failing / math.sqrt(total_failing * covered)


def dstar(counts: Counts, total_failing: int) -> float:
    """D* of Wong et al. (2014) with star 2, ef^2 / (ep + F - ef), brought into 0 to 1 as x / (1 + x)."""
    below = counts.passing + total_failing - counts.failing
    if not below:
        return 1.0 if counts.failing else 0.0
    value = counts.failing**2 / below
    return value / (1 + value)


class Spectrum:
    """Which tests ran which line; tests are numbered, failing ones first."""

    def __init__(self, coverage: Coverage, failing: Sequence[str], passing: Sequence[str]) -> None:
        self.tests = (*failing, *(test for test in passing if test not in frozenset(failing)))
        self.bit = {test: 1 << number for number, test in enumerate(self.tests)}
        self.failing_mask = (1 << len(failing)) - 1
        self.total_failing = len(failing)
        self.lines: dict[str, dict[int, int]] = {}
        """path -> line -> tests that ran it, for files that failing tests ran."""
        wanted = {path for test in failing for path, lines in coverage.get(test, {}).items() if lines}
        for path in sorted(wanted):
            # Most tests run the same lines of a file: equal sets are walked once.
            together: dict[frozenset[int], int] = {}
            for test in self.tests:
                lines = coverage.get(test, {}).get(path)
                if lines:
                    together[lines] = together.get(lines, 0) | self.bit[test]
            per_line: dict[int, int] = {}
            for lines, tests in together.items():
                for line in lines:
                    per_line[line] = per_line.get(line, 0) | tests
            self.lines[path] = per_line

    def counts(self, tests: int) -> Counts:
        """Failing and passing tests in a mask."""
        return Counts((tests & self.failing_mask).bit_count(), (tests & ~self.failing_mask).bit_count())

    def ochiai(self, tests: int) -> float:
        return ochiai(self.counts(tests), self.total_failing)

    def dstar(self, tests: int) -> float:
        return dstar(self.counts(tests), self.total_failing)
