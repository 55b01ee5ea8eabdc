"""The proof: fresh runs on the end tree, compared with the baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...sandbox.workspace import ChangedFile
from ..repo.testing.runner import TestRun
from .reproduce import Reproduction
from .stage import Stage
from .verdict import Verdict, judge


@dataclass(frozen=True)
class Verification:
    """What the final tree is worth."""

    verdict: Verdict
    patch: bytes
    """Diff from the start tree to the end tree, verified or not."""
    end_tree: str
    files: tuple[ChangedFile, ...]
    test_files_changed: tuple[str, ...]
    targets_run: TestRun | None = None
    suite_run: TestRun | None = None
    flaky: tuple[str, ...] = ()


async def verify(stage: Stage, reproduction: Reproduction, tell: Callable[[str, str], None]) -> Verification:
    """Runs the targets, then the whole suite, in fresh processes on the end tree.

    Test files that existed at the start are put back for these runs: a change that
    needs an edited test is not a fix. The workspace is left on the end tree.
    """
    workspace = stage.workspace
    start = workspace.base.tree
    end = await workspace.snapshot()
    files = await workspace.changed_files(start, end)
    patch = await workspace.diff(start, end)
    test_files = tuple(change.path for change in files if change.is_test)
    if not files:
        return Verification(Verdict(False, "nothing was changed"), b"", end, (), ())
    if not reproduction.failing:
        reason = "no failing test showed the problem, so no test can show that it is gone"
        return Verification(Verdict(False, reason), patch, end, files, test_files)
    edited = [change.path for change in files if change.is_test and change.status != "A"]
    if edited:
        tell(
            "warning",
            "the patch changes existing test files; they are put back for the proof: " + ", ".join(edited),
        )
        await workspace.restore_paths(start, edited)
    try:
        return await _run_and_judge(stage, reproduction, patch, end, files, test_files)
    finally:
        await workspace.restore(end)


async def _run_and_judge(
    stage: Stage,
    reproduction: Reproduction,
    patch: bytes,
    end: str,
    files: tuple[ChangedFile, ...],
    test_files: tuple[str, ...],
) -> Verification:
    wanted = [*reproduction.targets, *reproduction.target_files]
    targets_run = await stage.tests.run(wanted, purpose="verification: targets")
    passing = targets_run.report.passing_ids()
    still = tuple(test for test in reproduction.targets if test not in passing)
    if still:
        verdict = Verdict(
            False, f"{len(still)} of {len(reproduction.targets)} target tests still do not pass", still
        )
        return Verification(verdict, patch, end, files, test_files, targets_run)
    suite_run = await stage.tests.run(purpose="verification: whole suite")
    flaky = set(reproduction.flaky)
    before = reproduction.before.report
    verdict = judge(
        before,
        suite_run.report,
        targets=reproduction.targets,
        target_files=reproduction.target_files,
        flaky=flaky,
    )
    if verdict.regressions and len(verdict.regressions) <= 25:
        # It may be flaky: a test counts as lost only when it fails again, alone.
        again = await stage.tests.run(verdict.regressions, purpose="flaky-check")
        recovered = set(verdict.regressions) & again.report.passing_ids()
        if recovered:
            flaky |= recovered
            verdict = judge(
                before, suite_run.report, targets=reproduction.targets,
                target_files=reproduction.target_files, flaky=flaky,
            )  # fmt: skip
    if verdict.fixed and not await stage.workspace.patch_applies(patch):
        verdict = Verdict(False, "the patch does not apply to a clean checkout of the start tree")
    return Verification(
        verdict,
        patch,
        end,
        files,
        test_files,
        targets_run,
        suite_run,
        tuple(sorted(flaky - set(reproduction.flaky))),
    )
