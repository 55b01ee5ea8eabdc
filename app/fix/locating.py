"""`whimbrel locate`: where the fault may be, from failing tests, an issue's text, or both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...sandbox.base.errors import BudgetExceeded, NothingToFix
from ..agent.signals import interruptible
from ..evidence import EvidenceLedger
from ..repair.baseline import take_baseline
from ..repair.localise import Localisation, localise
from ..repair.placing import Placed, from_issue, from_tests, merged
from ..tools.base import ToolContext
from .intake import read_issue
from .options import FixOptions
from .reproduce import Reproduction, nothing_fails, reproduce
from .rundir import RunDirectory, new_run_id
from .stage import Stage, set_the_stage

Tell = Callable[[str, str], None]
SCHEMA_VERSION = 1


def run_locate(options: FixOptions, top: int, tell: Tell) -> dict[str, Any]:
    """Ranks and gives the JSON object that `whimbrel locate --json` prints.

    Raises:
        WhimbrelError: as `fix-issue` does, with the same exit codes.
    """
    return asyncio.run(_run(options, top, tell))


async def _run(options: FixOptions, top: int, tell: Tell) -> dict[str, Any]:
    issue = read_issue(options.issue)
    async with interruptible():
        run = RunDirectory.create(new_run_id())
        try:
            try:
                async with asyncio.timeout(options.max_time_s):
                    return await _with_folder(options, run, top, issue.text, tell)
            except TimeoutError as error:
                raise BudgetExceeded("the time of --max-time is over", hint="raise --max-time") from error
        finally:
            run.remove()


async def _with_folder(
    options: FixOptions, run: RunDirectory, top: int, issue: str, tell: Tell
) -> dict[str, Any]:
    begun = time.monotonic()
    ledger = EvidenceLedger()
    stage = await set_the_stage(options, run, ledger, tell)
    try:
        tell("progress", "running the tests")
        reproduction = await reproduce(stage, stage.selection, tell)
        if not reproduction.failing and not issue.strip():
            raise nothing_fails(reproduction)
        placed: list[Placed] = []
        notes: list[str] = []
        if reproduction.failing:
            found = await _from_tests(options, stage, reproduction, ledger, tell)
            placed.append(from_tests(found))
            notes += found.notes
        if issue.strip():
            placed.append(await asyncio.to_thread(from_issue, stage.workspace.root, issue))
        ranked = merged(placed)
        if not ranked.functions:
            raise NothingToFix(
                "neither the failing tests nor the issue lead to a place in the project's code",
                hint="describe the problem with --issue: names, messages and paths help most",
            )
        return _result(ranked, top, stage, reproduction, notes, time.monotonic() - begun)
    finally:
        await stage.close()


async def _from_tests(
    options: FixOptions, stage: Stage, reproduction: Reproduction, ledger: EvidenceLedger, tell: Tell
) -> Localisation:
    kept: dict[str, bytes] = {}

    def keep(data: bytes, name: str) -> str:
        kept[name] = data
        return name

    targets = (*reproduction.targets, *reproduction.target_files)
    context = ToolContext(
        workspace=stage.workspace,
        sandbox=stage.sandbox,
        tests=stage.tests,
        ledger=ledger,
        keep=keep,
        fetch=kept.__getitem__,
        seed=options.seed,
        target_tests=targets,
    )
    tell("progress", "running the tests with coverage")
    baseline = (await take_baseline(context)).narrowed(targets)
    return localise(context, baseline)


def _result(
    ranked: Placed,
    top: int,
    stage: Stage,
    reproduction: Reproduction,
    notes: Sequence[str],
    took_s: float,
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "located",
        "exit_code": 0,
        "repository": str(stage.repository),
        "base_commit": stage.workspace.base.commit,
        "failing_tests": [*reproduction.targets, *reproduction.target_files],
        "flaky_tests": list(reproduction.flaky),
        "files": [{"path": path, "score": score} for path, score in ranked.files[:top]],
        "functions": [place.to_json() for place in ranked.functions[:top]],
        "lines": [place.to_json() for place in ranked.lines[:top]],
        "notes": list(notes),
        "duration_s": round(took_s, 3),
    }
