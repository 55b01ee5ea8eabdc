"""The proof: fresh runs on the end tree, compared with the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...sandbox.base.errors import ToolError
from ...sandbox.base.secrets import redact_bytes
from ...sandbox.workspace import ChangedFile
from ..repo.testing.report import Outcome
from ..repo.testing.testrun import TestRun
from .harness import Sorted, notices_tests, sort_changes
from .reproduce import Reproduction
from .silencing import silences
from .stage import Stage
from .verdict import Verdict, judge

SILENCED = (
    "the exception does not come any more, but the issue does not say what should come instead,"
    " and the patch only avoids it"
)
_FEW = 25
"""Lost tests up to this number are looked at once more."""


@dataclass(frozen=True)
class Verification:
    """What the final tree is worth."""

    verdict: Verdict
    patch: bytes
    """The verified diff; without a verdict of fixed, everything that was changed."""
    end_tree: str
    """The tree that was proved: the start tree with ``patch``."""
    files: tuple[ChangedFile, ...]
    test_files_changed: tuple[str, ...]
    targets_run: TestRun | None = None
    suite_run: TestRun | None = None
    flaky: tuple[str, ...] = ()
    left_out: bytes = b""
    """Diff of what was changed besides and is no part of the patch: tests, their configuration, ..."""


async def verify(stage: Stage, reproduction: Reproduction, tell: Callable[[str, str], None]) -> Verification:
    """Runs the targets, then the whole suite, in fresh processes of a fresh sandbox.

    They run on the start tree with nothing but the patch: test files that existed, what configures
    tests, left-overs and links that lead out are as they were, and so is every file that a patch
    cannot contain. The workspace is left on the tree that was proved (without a test made of the
    issue: the proof runs with it, and what the patch leads to is the tree without it).
    """
    result = await _verify(stage, reproduction, tell)
    if not reproduction.added:
        return result
    await stage.workspace.restore_paths(stage.workspace.base.tree, [reproduction.added])
    return replace(result, end_tree=await stage.workspace.snapshot())


async def _verify(stage: Stage, reproduction: Reproduction, tell: Callable[[str, str], None]) -> Verification:
    workspace = stage.workspace
    start = reproduction.start or workspace.base.tree
    # First of all: what still runs in the old sandbox could change the tree while it is looked at.
    await stage.renew()
    everything = await workspace.snapshot()
    changes = await workspace.changed_files(start, everything, renames=False)
    kinds = sort_changes(changes, workspace.root)
    tests = tuple(path for path in (*kinds.edited_tests, *kinds.configuration, *kinds.new_tests))
    whole = await workspace.diff(start, everything)
    if not changes:
        return Verification(Verdict(False, "nothing was changed"), b"", everything, (), ())
    for line in kinds.remarks():
        tell("warning", line)
    files = await workspace.changed_files(start, everything)
    if not reproduction.failing:
        reason = "no failing test showed the problem, so no test can show that it is gone"
        return Verification(Verdict(False, reason), whole, everything, files, tests)
    if not kinds.code:
        reason = "only tests, their configuration or left-over files were changed, not the code"
        return Verification(Verdict(False, reason), whole, everything, files, tests)
    left_out = b""
    if kinds.put_back:
        left_out = await workspace.diff(start, everything, paths=kinds.put_back)
        await workspace.restore_paths(start, kinds.put_back)
    kept = await workspace.reset_unrecorded()
    end = await workspace.snapshot()
    if kept:
        shown = ", ".join(kept[:3])
        tell("warning", f"files that are in no patch were changed and could not be put back: {shown}")
    patch = await workspace.diff(start, end)
    for path in notices_tests(patch):
        tell("warning", f"the patch adds code to {path} that can tell whether tests are running: look at it")
    if redact_bytes(patch) != patch:
        tell("warning", "the patch holds the value of a secret from the environment: do not publish it")
    files = await workspace.changed_files(start, end)
    verdict, targets_run, suite_run, flaky = await _prove(stage, reproduction, kinds, end)
    if verdict.fixed and reproduction.weak and await _silences(stage, start, end, kinds.code):
        verdict = Verdict(False, SILENCED)
    if verdict.fixed and not await workspace.patch_applies(patch):
        verdict = Verdict(False, "the patch does not apply to a clean checkout of the start tree")
    if not verdict.fixed:
        patch, left_out = whole, b""
    return Verification(verdict, patch, end, files, tests, targets_run, suite_run, flaky, left_out)


async def _silences(stage: Stage, start: str, end: str, paths: Sequence[str]) -> bool:
    """Whether the patch avoids an exception in one of its Python files; new files count as code added."""

    async def text(tree: str, path: str) -> str:
        try:
            return (await stage.workspace.recorded(tree, path)).decode("utf-8", "replace")
        except ToolError:
            return ""  # not there on this side

    for path in paths:
        if path.endswith(".py") and silences(await text(start, path), await text(end, path)):
            return True
    return False


async def _prove(
    stage: Stage, reproduction: Reproduction, kinds: Sorted, end: str
) -> tuple[Verdict, TestRun, TestRun | None, tuple[str, ...]]:
    """(verdict, run of the targets, run of the suite, newly found flaky tests)."""
    wanted = [*reproduction.targets, *reproduction.target_files]
    targets_run = await stage.tests.run(wanted, purpose="verification: targets")
    passed = _passed(targets_run)
    still = tuple(test for test in reproduction.targets if test not in passed)
    if still:
        reason = f"{len(still)} of {len(reproduction.targets)} target tests still do not pass"
        return Verdict(False, reason, still), targets_run, None, ()
    for seed in stage.tests.other_hash_seeds:
        await stage.workspace.reset_unrecorded()
        other = await stage.tests.run(
            wanted, purpose=f"verification: targets, hash seed {seed}", hash_seed=seed
        )
        passed = _passed(other)
        still = tuple(test for test in reproduction.targets if test not in passed)
        if still:
            reason = (
                f"{still[0]} passes with PYTHONHASHSEED={stage.tests.seed} and not with {seed}:"
                " it hangs on the order in which a set gives its elements, or on chance"
            )
            return Verdict(False, reason, still), other, None, ()
    await stage.workspace.reset_unrecorded()
    suite_run = await stage.tests.run(purpose="verification: whole suite")
    known = frozenset(reproduction.flaky)
    verdict, flaky = await _judged(stage, reproduction, suite_run, known)
    if verdict.fixed:
        verdict = _trustworthy(reproduction, kinds, (targets_run, suite_run)) or verdict
    if verdict.fixed and await stage.workspace.snapshot() != end:
        verdict = Verdict(False, "something changed the files while the proof ran, so it proves nothing")
    return verdict, targets_run, suite_run, tuple(sorted(flaky - known))


async def _judged(
    stage: Stage, reproduction: Reproduction, suite_run: TestRun, known: frozenset[str]
) -> tuple[Verdict, frozenset[str]]:
    """The verdict, after lost tests had a second chance; and the flaky tests known by then."""

    def verdict_with(flaky: frozenset[str]) -> Verdict:
        return judge(
            reproduction.before.report,
            suite_run.report,
            targets=reproduction.targets,
            target_files=reproduction.target_files,
            flaky=flaky,
        )

    verdict = verdict_with(known)
    if not verdict.regressions or len(verdict.regressions) > _FEW:
        return verdict, known
    again = await stage.tests.run(verdict.regressions, purpose="flaky-check")
    recovered = frozenset(verdict.regressions) & again.report.passing_ids()
    if recovered:
        # Passing alone may only mean that the patch spoils it for tests that run after others.
        suite_again = await stage.tests.run(purpose="flaky-check")
        recovered &= suite_again.report.passing_ids()
    if not recovered:
        return verdict, known
    return verdict_with(known | recovered), known | recovered


def _passed(run: TestRun) -> frozenset[str]:
    return frozenset(case.id for case in run.report.cases if case.outcome is Outcome.PASSED)


def _trustworthy(reproduction: Reproduction, kinds: Sorted, runs: tuple[TestRun, ...]) -> Verdict | None:
    """A verdict against a fix whose runs look right but prove nothing; None when they do."""
    # Code that calls an expected failure or a skip upon itself does not make its test pass.
    unproved = [test for test in reproduction.targets if test not in _passed(runs[-1])]
    paths = {case.path for case in runs[-1].report.cases if case.outcome is Outcome.PASSED}
    unproved += [path for path in reproduction.target_files if path not in paths]
    if unproved:
        reason = f"{unproved[0]} was not shown to pass in the run of the whole suite"
        return Verdict(False, reason, tuple(unproved))
    added = frozenset(kinds.new_tests)
    before = reproduction.before.report.by_id()
    failing = [case.id for case in runs[-1].report.failing() if case.path in added and case.id not in before]
    broken = [error.path for error in runs[-1].report.collection_errors if error.path in added]
    if failing or broken:
        shown = ", ".join((failing + broken)[:3])
        return Verdict(False, f"tests that the patch adds do not pass: {shown}", tuple(failing + broken))
    patched = frozenset(kinds.code)
    usual = frozenset(reproduction.before.side_effects)
    for run in runs:
        touched = sorted(patched.intersection(run.side_effects) - usual)
        if touched:
            return Verdict(False, f"{touched[0]} was changed while the proof ran, so it proves nothing")
    return None
