"""Failing tests run again: which fail only sometimes, and which only after other tests.

A test that passes alone and fails in its suite every time is not flaky: tests before it leave
something behind, and that something (a shared default, a class attribute, a cache) is often the
very fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .report import Outcome, TestReport

if TYPE_CHECKING:
    from .runner import TestRunner

_FINE = frozenset((Outcome.PASSED.value, Outcome.XFAILED.value, Outcome.XPASSED.value))
_PURPOSE = "flaky-check"


@dataclass(frozen=True)
class Repeats:
    """What the same tree showed when its failing tests ran again."""

    flaky: tuple[str, ...] = ()
    """Passed once: their failure proves nothing."""
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Tests that pass alone and fail in company -> what runs before them when they fail."""


async def repeat(
    runner: TestRunner, report: TestReport, failing: Sequence[str], *, times: int = 1
) -> Repeats:
    """Runs failing tests again, alone, and those that pass then in company.

    Args:
        report: of the whole suite on this tree.
        failing: ids that were bad in it.
        times: how often they run alone.
    """
    if not failing:
        return Repeats()
    outcomes = await runner.flaky(failing, times=times)
    alone = [test for test, seen in outcomes.items() if _FINE.intersection(seen)]
    order = [case.id for case in report.cases]
    if not alone or len(order) < 2:
        return Repeats(tuple(alone))
    again = (await runner.run(purpose=_PURPOSE)).report
    steady = {case.id for case in again.failing()}
    after: dict[str, tuple[str, ...]] = {}
    by_file: dict[str, list[str]] = {}
    paths = {case.id: case.path for case in report.cases}
    for test in alone:
        if test in steady and test in paths:
            by_file.setdefault(paths[test], []).append(test)
    for path, tests in by_file.items():
        own = [test for test in order if paths[test] == path]
        known = (await runner.run(own, purpose=_PURPOSE)).report.by_id()
        for test in tests:
            enough = test in known and known[test].outcome.bad
            company = own if enough else order
            after[test] = tuple(company[: company.index(test)])
    # By chance a flaky test may have followed the pattern so far.
    once_more = await runner.flaky(list(after), times=1) if after else {}
    after = {test: company for test, company in after.items() if _FINE.intersection(once_more[test])}
    return Repeats(tuple(test for test in alone if test not in after), after)
