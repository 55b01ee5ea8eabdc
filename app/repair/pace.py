"""How long tests may take in a trial, from what they took before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..repo.testing.report import Outcome
from ..repo.testing.warm import Stage
from .baseline import Baseline

_SLOWER = 4.0
"""A candidate may take this many times what the tests took before."""
_GRACE_S = 0.3
_HUNG_TEST_S = 0.1
"""What a test that ended by its limit is taken to need once it is repaired."""


class Pace:
    """Limits of trials.

    The first run was traced and wrote tracebacks, which for short tests is most of what they took.
    Runs in the warm process show what is left without that; endless loops, a few per hundred
    candidates, would otherwise take most of the time of a search.
    """

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._known = baseline.report.by_id()
        self._slowest: dict[str, float] = {}
        self._passed: list[float] = []
        self._failed: list[float] = []
        for case in baseline.report.cases:
            if case.outcome is Outcome.PASSED:
                self._slowest[case.path] = max(case.duration_s, self._slowest.get(case.path, 0.0))

    def stage(self, tests: Sequence[str], *, stop_first: bool = True) -> Stage:
        """A stage with a limit for processes of any kind."""
        return Stage(tuple(tests), self.seconds(tests), stop_first)

    def seconds(self, tests: Sequence[str]) -> float:
        return self._limit(tests, 1.0, 1.0)

    def note(self, tests: Sequence[str], seconds: float) -> None:
        """What tests took all together in the warm process, unedited: all passed, or all failed."""
        cases = [self._known[test] for test in tests if test in self._known]
        before = sum(case.duration_s for case in cases)
        if before > 0:
            kept = self._passed if cases[0].outcome is Outcome.PASSED else self._failed
            kept.append(min(1.0, seconds / before))

    def in_warm(self, stage: Stage) -> Stage:
        """The same stage with the limit for the warm process."""
        passed = max(self._passed, default=1.0)
        limit = self._limit(stage.tests, passed, max(self._failed, default=1.0))
        return replace(stage, cpu_s=min(stage.cpu_s, limit))

    def _limit(self, tests: Sequence[str], passed: float, failed: float) -> float:
        """``passed``, ``failed``: shares of their first times that such tests are taken to need."""
        total = 0.0
        for test in tests:
            case = self._known.get(test)
            if case is None:
                total += self._baseline.duration_s  # a whole file that could not be collected
            elif case.outcome is Outcome.TIMEOUT:
                total += _HUNG_TEST_S + passed * self._slowest.get(case.path, 0.0)
            elif case.outcome is Outcome.PASSED:
                total += passed * case.duration_s
            else:
                # It ended early, where it failed; others of its file show how long one may take.
                total += max(failed * case.duration_s, passed * self._slowest.get(case.path, 0.0))
        return _SLOWER * total + _GRACE_S
