"""What an issue's text gives when no test fails: a failing test made of it, and places to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..repair.issue.rank import rank_issue
from ..repair.issue.reproduce import IssueTest, remove_test, reproduce_issue
from ..repo.testing.problems import RunProblem
from ..repo.testing.testrun import TestRun
from .reproduce import Reproduction
from .stage import Stage

MAX_PLACES = 20


@dataclass(frozen=True)
class FromIssue:
    """The baseline, now with a test made of the issue where one could be made."""

    reproduction: Reproduction
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    """``reproduction`` of result.json; empty where nothing was tried."""
    places: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Ranked from the text alone, as in ``located`` of result.json."""


async def reproduce_from_issue(
    stage: Stage, found: Reproduction, issue_text: str, tell: Callable[[str, str], None], *, trusted: bool
) -> FromIssue:
    """Makes a failing test of an issue, and takes the tree with it as the start of everything that follows.

    The test is run twice, alone and with the whole suite, and must fail in both for the reason that
    the issue states, while no other test fails because of it. Otherwise the tree is as before.

    Args:
        found: a baseline in which nothing fails.
        trusted: the person vouches for what is run; without isolation nothing of an issue is run
            otherwise, because anybody can write one.

    Raises:
        EnvironmentBroken, SandboxDied: as ``TestRunner.run``.
    """
    places = [
        {**asdict(place), "reasons": list(place.reasons)}
        for place in await asyncio.to_thread(
            rank_issue,
            stage.workspace.root,
            issue_text,
            files=await stage.workspace.files(),
            limit=MAX_PLACES,
        )
    ]
    if not stage.sandbox.describe().isolated and not trusted:
        why = "code of the issue is not run without isolation; use an isolating sandbox, or --trust"
        tell("warning", why)
        return FromIssue(found, _none([why]), places)
    if not _suite_counts(found.before):
        return FromIssue(found, _none(["the run of the tests was not complete"]), places)
    tell("progress", "no test fails: trying what the issue shows")
    attempt = await reproduce_issue(stage.workspace, stage.tests, issue_text, found.before.report)
    test, remarks = attempt.test, list(attempt.remarks)
    if test is not None:
        joined, why = await _with_the_suite(stage, found, test)
        if joined is not None:
            tell("info", f"made a failing test of the issue: {test.path} ({test.reasons[0]})")
            if test.weak:
                tell(
                    "warning",
                    "the issue says which exception must not come, not what should be instead: the test"
                    " asks for no more, so look at the patch",
                )
            diff = await stage.workspace.diff(stage.workspace.base.tree, joined.start)
            return FromIssue(joined, _some(test, diff.decode("utf-8", "surrogateescape"), joined), places)
        remarks.append(why)
        remove_test(stage.workspace, test)
    for remark in remarks[:5]:
        tell("info", remark)
    return FromIssue(found, _none(remarks), places)


def _suite_counts(run: TestRun) -> bool:
    """Whether the baseline can be compared with: it came to its end, or there are no tests yet."""
    return run.report.complete or run.problem is RunProblem.NO_TESTS


async def _with_the_suite(
    stage: Stage, found: Reproduction, test: IssueTest
) -> tuple[Reproduction | None, str]:
    """The baseline with the new test in it; or None and why the test is no use beside the others."""
    before = await stage.tests.run(purpose="baseline with the issue's test")
    failing = {case.id for case in before.report.failing()}
    missing = [target for target in test.targets if target not in failing]
    if missing:
        return None, f"{missing[0]} fails alone, but does not fail in the run of all tests"
    lost = found.before.report.passing_ids() - before.report.passing_ids() - set(found.flaky)
    others = failing - set(test.targets) - set(found.flaky)
    if lost or others or before.report.collection_errors or not before.report.complete:
        return None, f"other tests fail beside {test.path}"
    start = await stage.workspace.snapshot()
    joined = replace(found, before=before, targets=test.targets, wanted=(), start=start)
    return replace(joined, added=test.path, weak=test.weak), ""


def _some(test: IssueTest, diff: str, joined: Reproduction) -> dict[str, Any]:
    return {
        "path": test.path,
        "text": test.text,
        "diff": diff,
        "tests": list(test.targets),
        "reasons": list(test.reasons),
        "made_of": list(dict.fromkeys(test.origins)),
        "issue_line": test.line,
        "states_a_value": not test.weak,
        "ledger_row": joined.before.row.number,
        "remarks": [],
    }


def _none(remarks: list[str]) -> dict[str, Any]:
    return {"path": None, "remarks": remarks}
