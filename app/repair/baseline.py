"""What the tests showed before any edit: the ground that localisation and judgement stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...sandbox.base.errors import EnvironmentBroken
from ...sandbox.workspace.names import is_test_path
from ..repo.testing.repeats import repeat
from ..repo.testing.report import CollectionError, Outcome, TestCase, TestReport
from ..tools.base import ToolContext
from .localisation.history import remember
from .tracing import traced_suite

_SCRATCH = "repair-baseline"
_FLAKY_RERUNS = 1
"""More would cost every repair a process; the run's own check and the proof come on top."""
_MOST_RERUN = 25
"""Failing tests that are run again to find flaky ones; more than this many never are all flaky."""


@dataclass(frozen=True)
class Baseline:
    """One tree's test results.

    ``targets`` are what a patch must turn green: test ids, and paths of test files that
    could not be collected. ``passing`` are the ids that must stay green.
    """

    tree: str
    report: TestReport
    failing: tuple[TestCase, ...]
    broken: tuple[CollectionError, ...]
    passing: frozenset[str]
    flaky: tuple[str, ...]
    duration_s: float
    ledger_row: int
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Targets that fail only in company -> the tests that run before them then."""

    @property
    def targets(self) -> tuple[str, ...]:
        return (*(case.id for case in self.failing), *(error.path for error in self.broken))

    @property
    def suite(self) -> tuple[str, ...]:
        """Everything to run for a whole check: all ids, and the files that could not be collected."""
        return (
            *(case.id for case in self.report.cases),
            *(error.path for error in self.report.collection_errors),
        )

    @property
    def coverage(self) -> Mapping[str, Mapping[str, frozenset[int]]]:
        return self.report.coverage

    def narrowed(self, tests: Sequence[str]) -> Baseline:
        """The same results with only some of the failing tests as targets (all when none matches)."""
        wanted = set(tests)
        failing = tuple(case for case in self.failing if case.id in wanted or case.path in wanted)
        broken = tuple(error for error in self.broken if error.path in wanted)
        if not wanted or not (failing or broken):
            return self
        return replace(self, failing=failing, broken=broken)

    def tests_through(self, path: str, lines: range) -> tuple[str, ...]:
        """Passing tests that ran any of the lines of a file, in report order."""
        wanted = frozenset(lines)
        return tuple(
            case.id
            for case in self.report.cases
            if case.id in self.passing and wanted & self.coverage.get(case.id, {}).get(path, frozenset())
        )

    def in_company(self, tests: Sequence[str]) -> tuple[str, ...]:
        """The tests with those that must run before them, each once, in the order of the suite."""
        known_good = self.passing.union(self.targets)
        before = {each for test in tests for each in self.after.get(test, ()) if each in known_good}
        if not before:
            return tuple(tests)
        wanted = before.union(tests)
        known = [case.id for case in self.report.cases if case.id in wanted]
        return (*known, *(test for test in tests if test not in set(known)))

    def slowest(self, ids: Sequence[str]) -> float:
        """Seconds of the slowest of some tests."""
        known = self.report.by_id()
        return max((known[each].duration_s for each in ids if each in known), default=0.0)


async def take_baseline(context: ToolContext) -> Baseline:
    """Runs the suite with coverage of what matters, and what failed again; cached per tree.

    Raises:
        EnvironmentBroken: no test ran, for reasons outside the code under repair.
    """
    tree = await context.workspace.snapshot()
    cached = context.scratch.get(_SCRATCH)
    if isinstance(cached, Baseline) and cached.tree == tree:
        return cached
    run = await traced_suite(context, tree)
    if run.blocked:
        raise EnvironmentBroken(
            f"the tests cannot run here: {run.problem_detail or run.report.note}",
            hint="see whimbrel doctor and the project's own set-up instructions",
        )
    bad = run.report.failing()
    # A test that hung would only use up its whole limit once more.
    again = [case.id for case in bad if case.outcome is not Outcome.TIMEOUT][:_MOST_RERUN]
    repeats = await repeat(context.tests, run.report, again, times=_FLAKY_RERUNS)
    flaky = repeats.flaky
    baseline = Baseline(
        tree=await context.workspace.snapshot(),
        report=run.report,
        failing=tuple(case for case in bad if case.id not in flaky),
        broken=run.report.collection_errors,
        passing=run.report.passing_ids(),
        flaky=flaky,
        duration_s=run.result.duration_s,
        ledger_row=run.row.number,
        after=repeats.after,
    )
    context.scratch[_SCRATCH] = baseline
    if baseline.targets:
        await remember(context, _most_run(baseline))
    return baseline


def _most_run(baseline: Baseline) -> list[str]:
    """Files of the project by how many failing tests ran them or show them in their tracebacks."""
    times: dict[str, int] = {}
    for case in (*baseline.failing, *baseline.broken):
        paths = {frame.path for frame in case.frames if frame.in_repository}
        if isinstance(case, TestCase):
            paths |= baseline.coverage.get(case.id, {}).keys()
        for path in paths:
            if path.endswith(".py") and not is_test_path(path):
                times[path] = times.get(path, 0) + 1
    return sorted(times, key=lambda path: (-times[path], path))
