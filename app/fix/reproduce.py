"""The run before any change: which tests fail, which of them are flaky, what the run itself rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..repo.environment import diagnose
from ..repo.testing.report import Outcome
from ..repo.testing.runner import TestRun
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

    @property
    def failing(self) -> bool:
        return bool(self.targets or self.target_files)


async def reproduce(stage: Stage, wanted: Sequence[str], tell: Callable[[str, str], None]) -> Reproduction:
    """Runs the whole suite on the start tree.

    Args:
        wanted: test ids asked for by the person or read from the CI log; empty = every failing one.

    Raises:
        EnvironmentBroken: the tests cannot run here for reasons outside the code under repair.
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
    known = {case.id for case in report.cases}
    failing = [case.id for case in report.cases if case.outcome.bad]
    if wanted:
        chosen = [test for test in failing if _selected(test, wanted)]
        unknown = [w for w in wanted if not any(_selected(test, [w]) for test in known)]
        collection = {error.path for error in report.collection_errors}
        for name in unknown:
            if name.split("::")[0] not in collection:
                tell("warning", f"no test is called {name}")
        failing = chosen
    flaky = await _flaky_among(stage, failing)
    targets = tuple(test for test in failing if test not in flaky)
    for test in flaky:
        tell("warning", f"{test} fails only sometimes on the same code; it is no target")
    files = tuple(error.path for error in report.collection_errors)
    if wanted and targets:
        files = tuple(path for path in files if any(w.split("::")[0] == path for w in wanted))
    return Reproduction(before, targets, files, tuple(flaky))


async def _flaky_among(stage: Stage, failing: Sequence[str]) -> list[str]:
    """Failing tests that pass when run again, alone, on the same tree."""
    suspects = list(failing)[:MAX_FLAKY_CHECKS]
    if not suspects:
        return []
    again = await stage.tests.run(suspects, purpose="flaky-check")
    outcomes = again.report.by_id()
    return [
        test for test in suspects
        if test in outcomes and outcomes[test].outcome in (Outcome.PASSED, Outcome.XFAILED, Outcome.XPASSED)
    ]  # fmt: skip


def _selected(test: str, wanted: Sequence[str]) -> bool:
    """Whether a test id is one of those asked for, or lies in a file, class or folder asked for."""
    for name in wanted:
        if test == name or test.startswith((f"{name}::", f"{name}[", f"{name}.", f"{name.rstrip('/')}/")):
            return True
    return False
