"""Comparing the tests before and after: the only place that may say "fixed"."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..repo.testing.report import Outcome, TestReport


@dataclass(frozen=True)
class Verdict:
    """What two fresh runs prove."""

    fixed: bool
    reason: str
    """One sentence a person can check against the two reports."""
    still_failing: tuple[str, ...] = ()
    regressions: tuple[str, ...] = ()
    """Tests that passed before and do not pass now."""


def judge(
    before: TestReport,
    after: TestReport,
    *,
    targets: Collection[str],
    target_files: Collection[str] = (),
    flaky: Collection[str] = (),
) -> Verdict:
    """Fixed means: every target went from failing to passing, and nothing that passed fails.

    Args:
        targets: test ids that failed before.
        target_files: test files that could not be collected before; afterwards they must
            be collected and all their tests must pass.
        flaky: ids whose outcome changed between runs of the same tree; they prove nothing
            in either direction.
    """
    if not targets and not target_files:
        return Verdict(False, "there was no failing test to turn green")
    # A skipped target was not shown to pass, so skips do not count as passing here.
    passing = after.passing_ids()
    still = sorted(test for test in targets if test not in passing)
    uncollected = {error.path for error in after.collection_errors}
    for path in sorted(target_files):
        cases = [case for case in after.cases if case.path == path]
        if path in uncollected or not cases:
            still.append(path)
        still.extend(sorted(case.id for case in cases if case.outcome.bad))
    lost = sorted(test for test in before.passing_ids() - passing if test not in flaky)
    if still:
        return Verdict(
            False,
            f"{len(still)} of the tests to turn green still {'does' if len(still) == 1 else 'do'} not pass",
            tuple(still),
            tuple(lost),
        )
    if lost:
        shown = ", ".join(lost[:3]) + (", ..." if len(lost) > 3 else "")
        return Verdict(
            False,
            f"{_count(len(lost), 'test that passed before does', 'tests that passed before do')}"
            f" not pass now: {shown}",
            (),
            tuple(lost),
        )
    if not after.complete:
        return Verdict(False, "the run after the patch was cut short, so it proves nothing")
    new_bad = sorted(
        case.id
        for case in after.cases
        if case.outcome in (Outcome.CRASHED, Outcome.TIMEOUT)
        and case.id not in flaky
        and case.id not in before.by_id()
    )
    if new_bad:
        return Verdict(False, "tests that did not exist before crash or hang", tuple(new_bad))
    return Verdict(
        True,
        _count(len(targets) + len(target_files), "test that failed passes", "tests that failed pass")
        + " now, and nothing that passed before fails",
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
