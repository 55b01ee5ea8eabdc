"""Whether a test report shows a fix: the targets pass, and nothing that passed before fails."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..repo.testing.report import Outcome, TestReport


@dataclass(frozen=True)
class Verdict:
    """What stands against a fix; a verdict without objections is good."""

    still_bad: tuple[str, ...] = ()
    """Targets that do not pass (skipped and vanished ones count as not passing)."""
    regressed: tuple[str, ...] = ()
    """Tests that passed before and do not now."""
    incomplete: bool = False

    @property
    def good(self) -> bool:
        return not (self.still_bad or self.regressed or self.incomplete)


def judge(report: TestReport, targets: Sequence[str], must_pass: Collection[str]) -> Verdict:
    """Compares a report with what has to hold.

    ``targets`` are test ids or paths of files that could not be collected before;
    ``must_pass`` are ids that passed before and were part of this run.
    """
    passed = {case.id for case in report.cases if case.outcome is Outcome.PASSED}
    broken = {error.path for error in report.collection_errors}
    files = {case.path for case in report.cases if case.outcome is Outcome.PASSED}
    files -= broken | {case.path for case in report.failing()}
    still_bad = tuple(target for target in targets if target not in passed and target not in files)
    kept = report.passing_ids()
    regressed = tuple(sorted(test for test in must_pass if test not in kept))
    return Verdict(still_bad, regressed, not report.complete)
