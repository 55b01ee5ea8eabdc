"""The ``run_tests`` tool: the project's tests, fresh, with evidence.

Data: ``{"counts": {outcome: n}, "exit_code", "ledger_row", "complete", "tests": [{"id",
"outcome", "exception", "message", "path", "line", "frames": [{"path", "line", "function",
"code"}]}] (bad ones only), "collection_errors": [{"path", "exception", "message"}],
"flaky": [ids]}``. ``flaky`` names tests whose outcome changed on an unchanged tree.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from ...sandbox.base.errors import EnvironmentBroken, ToolError
from ..repo.testing.report import TestCase, TestReport, TraceFrame, summary_line
from ..repo.testing.testrun import TestRun
from .base import PermissionClass, Progress, ToolArguments, ToolContext, ToolResult

MAX_DETAILED = 10
MAX_LISTED = 40
MAX_FRAMES = 5
MAX_MESSAGE = 1500
MAX_LOG_BYTES = 64 << 20


class RunTestsArguments(ToolArguments):
    tests: list[str] | None = Field(default=None, description="Test ids or files; left out: the whole suite.")
    rerun: bool = Field(default=False, description="Run again although nothing changed since the last run.")


_WHOLE = "whole-suite"
_Key = tuple[str, tuple[str, ...] | None]
"""Tree hash and selection."""


@dataclass(frozen=True)
class _Recorded:
    result: ToolResult
    row: int
    outcomes: dict[str, str]


class RunTestsTool:
    name: ClassVar[str] = "run_tests"
    arguments: ClassVar[type[ToolArguments]] = RunTestsArguments
    permission: ClassVar[PermissionClass] = PermissionClass.EXECUTE

    async def run(self, context: ToolContext, arguments: RunTestsArguments) -> ToolResult:
        """Runs or recalls.

        Raises:
            EnvironmentBroken: no test could run, for reasons outside the code, and none ever did in this run.
            ToolError: the same after tests had run: something the model did broke it.
        """
        recorded = _memory(context)
        selection = tuple(dict.fromkeys(arguments.tests)) if arguments.tests else None
        key = (await context.workspace.snapshot(), selection)
        before = recorded.get(key)
        if before is not None and not arguments.rerun:
            note = (
                f"Nothing has changed since evidence row {before.row}, so the tests were not run again"
                f" (set rerun to force it). Recorded result:\n"
            )
            return ToolResult(note + before.result.text, before.result.data, before.result.artifacts)
        what = _count(selection) if selection else "the whole suite"
        context.progress(Progress("test", f"running {what}"))
        timeout_s = context.tests.run_timeout_s
        if context.deadline is not None:
            timeout_s = min(timeout_s, max(1.0, context.deadline - time.monotonic()))
        run = await context.tests.run(selection, purpose="tool", timeout_s=timeout_s)
        if run.blocked:
            problem = EnvironmentBroken if not recorded else ToolError
            raise problem(f"the tests cannot run: {run.problem_detail}", hint=f"`{run.equivalent}` shows it")
        earlier = before.outcomes if before is not None else {}
        outcomes = _outcomes(run)
        flaky = sorted(test for test, outcome in outcomes.items() if earlier.get(test, outcome) != outcome)
        result = await _result(context, run, flaky)
        if run.report.complete:
            recorded[key] = _Recorded(result, run.row.number, outcomes)
        return result


async def recall(context: ToolContext, run: TestRun, flaky: Sequence[str] = ()) -> None:
    """Makes a whole-suite run of the present tree one that ``run_tests`` answers from."""
    if not run.report.complete or run.blocked:
        return
    result = await _result(context, run, sorted(flaky))
    tree = await context.workspace.snapshot()
    _memory(context)[tree, None] = _Recorded(result, run.row.number, _outcomes(run))
    context.scratch[_WHOLE] = (tree, run)


def latest_whole_run(context: ToolContext, tree: str) -> TestRun | None:
    """The latest run that was given to ``recall``, if it was one of this tree."""
    known, run = context.scratch.get(_WHOLE, ("", None))
    return run if known == tree else None


def _memory(context: ToolContext) -> dict[_Key, _Recorded]:
    return context.scratch.setdefault(RunTestsTool.name, {})


def _outcomes(run: TestRun) -> dict[str, str]:
    return {case.id: case.outcome.value for case in run.report.cases}


async def _result(context: ToolContext, run: TestRun, flaky: list[str]) -> ToolResult:
    handle = await _keep_log(context, run)
    text = report_text(run, flaky)
    if handle:
        text += f"\nComplete output: artifact:{handle}"
    return ToolResult(text, report_data(run, flaky), (handle,) if handle else ())


def report_text(run: TestRun, flaky: list[str]) -> str:
    """For the model: counts, then the bad tests in detail, then the rest by id. Same run, same text."""
    report = run.report
    head = (
        f"{summary_line(report.counts())} (exit code {run.result.exit_code}, evidence row {run.row.number})"
    )
    blocks = [head]
    if not report.complete:
        blocks.append("The run did not complete: tests not named here did not run.")
    if report.note:
        blocks.append(report.note)
    if run.problem_detail:
        blocks.append(run.problem_detail)
    if flaky:
        blocks.append("Flaky (outcome changed although the tree did not): " + ", ".join(flaky[:MAX_LISTED]))
    for error in report.collection_errors[:MAX_DETAILED]:
        blocks.append(
            f"COLLECTION ERROR {error.path}: {_headline(error.exception, error.message)}"
            + _frames(error.frames)
        )
    bad = report.failing()
    blocks += [_case_text(case) for case in bad[:MAX_DETAILED]]
    rest = bad[MAX_DETAILED:]
    if rest:
        listed = "\n".join(f"{case.outcome.value.upper()} {case.id}" for case in rest[:MAX_LISTED])
        hidden = len(rest) - MAX_LISTED
        more = f"\n[{hidden} more bad tests not shown]" if hidden > 0 else ""
        blocks.append(f"Also bad, without details:\n{listed}{more}")
    return "\n".join(blocks)


def report_data(run: TestRun, flaky: list[str]) -> dict[str, Any]:
    """The documented shape, see the module's docstring."""
    report: TestReport = run.report
    return {
        "counts": report.counts(),
        "exit_code": run.result.exit_code,
        "ledger_row": run.row.number,
        "complete": report.complete,
        "tests": [_case_data(case) for case in report.failing()],
        "collection_errors": [
            {"path": error.path, "exception": error.exception, "message": error.message}
            for error in report.collection_errors
        ],
        "flaky": flaky,
    }


def _case_text(case: TestCase) -> str:
    return f"{case.outcome.value.upper()} {case.id}: {_headline(case.exception, case.message)}" + _frames(
        case.frames
    )


def _headline(exception: str, message: str) -> str:
    text = message if exception and message.startswith(exception) else f"{exception}: {message}".strip(": ")
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]} [... {len(text) - MAX_MESSAGE} more characters]"
    return text or "no message"


def _frames(frames: tuple[TraceFrame, ...]) -> str:
    shown = [frame for frame in frames if frame.in_repository][-MAX_FRAMES:]
    return "".join(
        f"\n  {frame.path}:{frame.line} in {frame.function}: {frame.code.strip()}" for frame in shown
    )


def _case_data(case: TestCase) -> dict[str, Any]:
    return {
        "id": case.id,
        "outcome": case.outcome.value,
        "exception": case.exception,
        "message": case.message,
        "path": case.path,
        "line": case.line,
        "frames": [
            {"path": frame.path, "line": frame.line, "function": frame.function, "code": frame.code}
            for frame in case.frames
            if frame.in_repository
        ],
    }


def _count(selection: tuple[str, ...]) -> str:
    return "1 selected test" if len(selection) == 1 else f"{len(selection)} selected tests"


async def _keep_log(context: ToolContext, run: TestRun) -> str:
    """The complete output as a blob; empty when there is none, or too much (the ledger names its file)."""

    def read() -> bytes:
        path = run.result.log_path
        return path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_LOG_BYTES else b""

    data = await asyncio.to_thread(read)
    return context.keep(data, "text/plain") if data else ""
