"""The run before any change: which tests fail, which of them are flaky, what the run itself rewrites."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...sandbox.base.errors import EnvironmentBroken, NothingToFix, UsageError, WhimbrelError
from ..repo.environment import diagnose
from ..repo.testing.problems import RunProblem
from ..repo.testing.repeats import Repeats, repeat
from ..repo.testing.report import Outcome, TestCase, TestReport
from ..repo.testing.testrun import TestRun
from .stage import Stage

MAX_FLAKY_CHECKS = 25
"""Failing tests re-run one by one in fresh processes; more failing tests than this share one fault anyway."""


@dataclass(frozen=True)
class Reproduction:
    """What the baseline showed."""

    before: TestRun
    """The whole suite on the start tree."""
    targets: tuple[str, ...]
    """Failing tests the run must turn green."""
    target_files: tuple[str, ...]
    """Test files that could not be collected because of the code under repair."""
    flaky: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    """Names of tests that chose the targets; empty = every failing test is one."""
    start: str | None = None
    """Tree that the work starts from, where that is not the base tree: with a test made of the issue."""
    added: str = ""
    """Path of that test module; it is no part of the patch."""
    weak: bool = False
    """That test asks only for an exception not to come; what should come instead nobody said."""

    @property
    def failing(self) -> bool:
        return bool(self.targets or self.target_files)


async def reproduce(
    stage: Stage, wanted: Sequence[str], tell: Callable[[str, str], None], *, by_person: bool = True
) -> Reproduction:
    """Runs the whole suite on the start tree.

    Args:
        wanted: test ids, files or folders of tests; empty = every failing test.
        by_person: asked for by the person, so that names which match nothing are their mistake;
            False = read from a CI log, whose names may be those of another machine.

    Raises:
        EnvironmentBroken: the tests cannot run here for reasons outside the code under repair.
        UsageError: the person asked for tests that do not exist.
        NothingToFix: nothing of what is wanted fails; says what was run and what else fails.
    """
    before = await stage.tests.run(purpose="baseline")
    if before.side_effects:
        shown = ", ".join(before.side_effects[:3]) + (", ..." if len(before.side_effects) > 3 else "")
        tell(
            "warning",
            f"the tests rewrite files of the repository; put back, and no part of the patch: {shown}",
        )
    broken = diagnose(before, stage.workspace, stage.environment)
    if broken is not None:
        raise broken
    report = before.report
    wanted = _known(report, wanted, tell, by_person=by_person)
    failing = [case.id for case in report.cases if case.outcome.bad and _chosen(case, wanted)]
    repeats = await _repeated(stage, report, failing)
    flaky = repeats.flaky
    targets = tuple(test for test in failing if test not in flaky)
    for test in flaky:
        tell("warning", f"{test} fails only sometimes on the same code; it is no target")
    for test in repeats.after:
        tell("info", f"{test} passes alone and fails after other tests")
    files = tuple(error.path for error in report.collection_errors if _file_chosen(error.path, wanted))
    return Reproduction(before, targets, files, flaky, tuple(wanted))


def nothing_fails(found: Reproduction) -> WhimbrelError:
    """Why there is nothing to repair, in words that the baseline bears out.

    NothingToFix, or EnvironmentBroken where the run ended too early to show that.
    """
    run, report = found.before, found.before.report
    # pytest ends with 5 where it finds no tests: 0 without a test is a conftest that left.
    left = run.result.exit_code == 0 and run.equivalent.startswith("python -m pytest")
    empty = run.problem is RunProblem.NO_TESTS and not left
    if not report.complete or not (report.cases or empty):
        why = " ".join((run.problem_detail or report.note or "the process ended early").split())
        ran = f"after {len(report.cases)} tests" if report.cases else "before it ran a test"
        return EnvironmentBroken(
            f"the test run ended {ran}, so it shows neither a fault nor its absence: {why}",
            hint=f"see what this does: {run.equivalent}" if run.equivalent else "",
        )
    describe = "describe the problem with --issue"
    if not report.cases and not report.collection_errors:
        return NothingToFix(
            "no tests were found, so nothing shows a fault",
            hint="name a test command with --tests, or add a failing test",
        )
    if found.flaky:
        return NothingToFix(
            f"the only failing tests fail only sometimes on the same code: {_few(found.flaky)}",
            hint="make them fail every time, or fix what they depend on",
        )
    if found.wanted:
        others = [case.id for case in report.failing()] + [e.path for e in report.collection_errors]
        if others:
            return NothingToFix(
                f"the tests asked for pass; others fail: {_few(others)}",
                hint="leave the names out to repair those",
            )
        return NothingToFix("the tests asked for pass, and so do all others", hint=describe)
    if not report.passing_ids():
        return NothingToFix("no test fails, but none passes either: all were skipped", hint=describe)
    return NothingToFix("all tests pass and no issue was given", hint=describe)


def _known(
    report: TestReport, wanted: Sequence[str], tell: Callable[[str, str], None], *, by_person: bool
) -> tuple[str, ...]:
    """Those of the wanted names that name a test here."""
    paths = [error.path for error in report.collection_errors]
    known = tuple(
        name for name in wanted
        if any(_chosen(case, [name]) for case in report.cases)
        or any(_file_chosen(path, [name]) for path in paths)
    )  # fmt: skip
    unknown = [name for name in wanted if name not in known]
    if unknown and not known:
        if by_person:
            near = difflib.get_close_matches(unknown[0], [case.id for case in report.cases], 1, 0.5)
            raise UsageError(
                f"no test is called {_few(unknown)}",
                hint=f"did you mean {near[0]}?" if near else "give the id, file or folder of a test",
            )
        tell(
            "warning", f"the log's tests are not known here ({_few(unknown)}); every failing test is a target"
        )
        return ()
    for name in unknown:
        tell("warning", f"no test is called {name}")
    return known


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


async def _repeated(stage: Stage, report: TestReport, failing: Sequence[str]) -> Repeats:
    """What failing tests do when they run again on the same tree."""
    known = report.by_id()
    # A test that hung would only use up its whole limit once more.
    suspects = [test for test in failing if known[test].outcome is not Outcome.TIMEOUT]
    return await repeat(stage.tests, report, suspects[:MAX_FLAKY_CHECKS])


def _chosen(case: TestCase, wanted: Sequence[str]) -> bool:
    """Whether a test is one of those wanted, or lies in a file, class or folder that is."""
    return not wanted or any(
        case.id == name or case.id.startswith((f"{name}::", f"{name}[", f"{name}."))
        for name in map(_plain, wanted)
    ) or (bool(case.path) and _file_chosen(case.path, wanted, whole=True))  # fmt: skip


def _file_chosen(path: str, wanted: Sequence[str], *, whole: bool = False) -> bool:
    """Whether a test file is wanted itself, by its folder, or (unless ``whole``) by a test in it."""
    module = path.removesuffix(".py").replace("/", ".")
    for name in map(_plain, wanted):
        if name in (path, module, ".") or path.startswith(f"{name}/"):
            return True
        if not whole and (name.split("::")[0] == path or name.startswith(f"{module}.")):
            return True
    return not wanted


def _plain(name: str) -> str:
    """A name as ids spell it: without ``./`` in front and ``/`` behind."""
    return name.removeprefix("./").rstrip("/") or "."
