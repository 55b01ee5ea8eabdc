"""The check of a change before anything else is done: do the tests that it affects pass?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...sandbox.base.errors import NotFixed, NothingToFix
from ..repo.environment import diagnose
from ..repo.testing.adapters import PytestAdapter, UnittestAdapter
from ..repo.testing.affected import Affected, affected_tests
from ..repo.testing.report import summary_line
from .stage import Stage

_FEW = 5


@dataclass(frozen=True)
class Check:
    """What a change is compared with; the run ends with NothingToFix when its tests pass."""

    changed: tuple[str, ...]
    """Paths that differ, relative to the top."""
    everything: bool = False
    """Run all tests, whatever the change affects."""
    only: bool = False
    """End with NotFixed when they fail: no patch is looked for."""


async def check_change(
    stage: Stage, check: Check, record: dict[str, Any], tell: Callable[[str, str], None], *, timeout_s: float
) -> None:
    """Runs the tests that the change affects; those that fail become the stage's selection.

    Args:
        record: filled as it goes (``check`` of result.json), so that it is true also when time runs out.

    Raises:
        NothingToFix: no test is affected, or those that are pass.
        NotFixed: they fail, and no patch is wanted.
        EnvironmentBroken: they cannot run here.
    """
    affected = await _affected(stage, check)
    record.update(
        changed=list(check.changed)[:200],
        tests=list(affected.tests),
        everything=affected.everything,
        unreached=list(affected.unreached),
        failing=[],
        summary="",
    )
    if not affected.everything and not affected.tests:
        raise NothingToFix(f"no test is affected{_unreached(affected)}")
    chosen = None if affected.everything else affected.tests
    run = await stage.tests.run(chosen, purpose="check of the change", timeout_s=timeout_s)
    report = run.report
    record["summary"] = summary_line(report.counts())
    broken = diagnose(run, stage.workspace, stage.environment)
    if broken is not None:
        raise broken
    failing = [case.id for case in report.failing()] + [each.path for each in report.collection_errors]
    record["failing"] = failing[:200]
    record["details"] = [
        {"id": case.id, "message": f"{case.exception}: {case.message}".strip(": ")[:400], "path": case.path}
        for case in report.failing()[:20]
    ] + [
        {"id": each.path, "message": f"{each.exception}: {each.message}"[:400], "path": each.path}
        for each in report.collection_errors[:20]
    ]
    record["complete"] = report.complete
    if not failing and report.complete:
        raise NothingToFix(f"{record['summary']}{_unreached(affected)}")
    if not failing:
        # Cut short (time, a process that left): the baseline says what that means.
        tell("warning", f"the check was cut short: {run.problem_detail or report.note}")
        return
    if check.only:
        raise NotFixed("none was looked for")
    tell("info", f"fails with the change: {', '.join(failing[:_FEW])}{', ...' if failing[_FEW:] else ''}")
    stage.selection = tuple(failing)


async def _affected(stage: Stage, check: Check) -> Affected:
    if check.everything:
        return Affected(everything=True, why="asked for")
    root, files = stage.workspace.root, await stage.workspace.files()
    if not isinstance(stage.tests.adapter, PytestAdapter | UnittestAdapter):
        code = affected_tests(root, (), check.changed, ())
        return Affected(everything=code.everything, why=f"{stage.tests.adapter.name} runs as a whole")
    return affected_tests(root, files, check.changed, stage.environment.import_roots)


def _unreached(affected: Affected) -> str:
    if not affected.unreached:
        return ""
    shown = ", ".join(affected.unreached[:_FEW]) + (", ..." if affected.unreached[_FEW:] else "")
    return f"; no test was found that reaches {shown}"
