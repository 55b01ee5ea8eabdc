"""Proof of a patch: fresh processes, the targets first (with several hash seeds), then the whole suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..repo.testing.report import Outcome
from ..tools.base import ToolContext
from ..tools.run_tests import recall
from .baseline import Baseline
from .candidates import Candidate
from .limits import Clock
from .source import ModuleSource
from .verdict import Verdict, judge
from .workspace_edit import applied

_MOST_RERUN = 10
_RERUNS = 2
_LEAST_TIME_S = 1.0


@dataclass(frozen=True)
class Proof:
    """What fresh processes showed, with the ledger rows that say so."""

    verdict: Verdict
    rows: tuple[int, ...]

    @property
    def good(self) -> bool:
        return bool(self.rows) and self.verdict.good


def proof_s(baseline: Baseline) -> float:
    """Seconds to keep for a proof: the suite, perhaps some of it again, the targets with each hash seed."""
    targets = set(baseline.targets)
    others = sum(case.duration_s for case in baseline.report.cases if case.id not in targets)
    return 2 * baseline.duration_s + 3 * max(0.0, baseline.duration_s - others) + 5


async def prove(
    context: ToolContext,
    sources: Mapping[str, ModuleSource],
    candidate: Candidate,
    baseline: Baseline,
    clock: Clock,
) -> Proof:
    """Runs the targets and the whole suite with the candidate; the workspace is as before afterwards.

    A test that fails now and passed before is run again: when it passes on the same code
    it is flaky and not held against the patch.
    """
    if clock.left() < _LEAST_TIME_S:
        return Proof(Verdict(still_bad=baseline.targets, incomplete=True), ())
    try:
        with applied(context.workspace, sources, candidate):
            return await _prove(context, baseline, clock)
    finally:
        # Files that the tests rewrote are not part of the patch.
        await context.workspace.restore(baseline.tree)


async def _prove(context: ToolContext, baseline: Baseline, clock: Clock) -> Proof:
    first = await context.tests.run(baseline.targets, purpose="verification", timeout_s=_time(clock))
    verdict = judge(first.report, baseline.targets, ())
    rows = [first.row.number]
    for seed in context.tests.other_hash_seeds:
        if not verdict.good:
            return Proof(verdict, tuple(rows))
        # A patch that goes through a set in the order it happens to have is no repair.
        purpose = f"verification: hash seed {seed}"
        run = await context.tests.run(
            baseline.targets, purpose=purpose, timeout_s=_time(clock), hash_seed=seed
        )
        rows.append(run.row.number)
        verdict = judge(run.report, baseline.targets, ())
    if not verdict.good:
        return Proof(verdict, tuple(rows))
    whole = await context.tests.run(purpose="verification", timeout_s=_time(clock))
    rows.append(whole.row.number)
    # While the candidate is in place: whoever asks for the suite on this tree later has it already.
    await recall(context, whole, baseline.flaky)
    steady = baseline.passing - set(baseline.flaky)
    verdict = judge(whole.report, baseline.targets, steady)
    if verdict.regressed and len(verdict.regressed) <= _MOST_RERUN and not verdict.still_bad:
        again = await context.tests.flaky(verdict.regressed, times=_RERUNS)
        real = tuple(test for test, seen in again.items() if Outcome.PASSED.value not in seen)
        verdict = Verdict(verdict.still_bad, real, verdict.incomplete)
    return Proof(verdict, tuple(rows))


def _time(clock: Clock) -> float:
    return max(_LEAST_TIME_S, clock.left())
