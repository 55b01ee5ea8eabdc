"""The whole suite with coverage; of a large one, coverage of those tests only that can tell something.

In a large suite most tests never come near the fault, and recording what they run costs more than
running them. There the outcomes are those of the run that showed the failure, and coverage is recorded
for the failing tests first, then for passing tests of files that import what those ran, nearest first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath

from ...sandbox.base.errors import ToolError
from ...sandbox.workspace import Workspace
from ...sandbox.workspace.names import is_test_path
from ..repo.testing.report import Outcome, TestReport
from ..repo.testing.runner import TestRunner
from ..repo.testing.testrun import TestRun
from ..tools.base import ToolContext
from ..tools.run_tests import latest_whole_run

LARGE = 1000
"""Tests from which on a suite counts as large."""
_MOST_FAILING = 50
_MOST_PASSING = 600
_MOST_STEPS = 4
"""Imports between a test file and what a failing test ran."""
_RECORDED_S, _HANGING_S = 15.0, 4.0
"""For one test while lines are recorded: in general, and where some are known to hang."""
_PATIENCE = 10.0
"""So many times what the slowest failing test took before that is given in any case."""
_MOST_BYTES = 1 << 20
_PURPOSE = "baseline"
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#(]+)|import[ \t]+([^\n#]+))", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")


async def traced_suite(context: ToolContext, tree: str) -> TestRun:
    """The suite on the present tree (its hash is ``tree``), with coverage of all that matters.

    Raises:
        EnvironmentBroken, SandboxDied: as every run of tests.
    """
    known = latest_whole_run(context, tree)
    with _impatient(context.tests, known):
        return await _traced(context, known)


async def _traced(context: ToolContext, known: TestRun | None) -> TestRun:
    if known is None or not is_large(known.report) or not known.report.failing():
        run = await context.tests.run(purpose=_PURPOSE, coverage=True)
        return run if known is None else replace(run, report=_believed(run.report, known.report))
    bad = [case.id for case in known.report.failing()]
    first = await context.tests.run(bad[:_MOST_FAILING], purpose=_PURPOSE, coverage=True)
    ran = {path for files in first.report.coverage.values() for path in files}
    suspicious = sorted(path for path in ran if not is_test_path(path))
    if not suspicious:
        return await context.tests.run(purpose=_PURPOSE, coverage=True)
    own = sorted({case.path for case in known.report.failing()})
    files = await context.workspace.files()
    near = await asyncio.to_thread(importers, context.workspace, files, suspicious)
    chosen = _passing_of(known.report, [*own, *(path for path in near if path not in own)])
    second = await context.tests.run(chosen, purpose=_PURPOSE, coverage=True) if chosen else None
    coverage = {**first.report.coverage, **(second.report.coverage if second else {})}
    if "" in first.report.coverage:
        # What ran outside of tests, while they were imported: the failing ones' files say enough.
        coverage[""] = first.report.coverage[""]
    again = first.report.by_id()
    cases = tuple(again.get(case.id, case) for case in known.report.cases)
    return replace(
        known, report=_believed(replace(known.report, cases=cases, coverage=coverage), known.report)
    )


def _believed(traced: TestReport, plain: TestReport) -> TestReport:
    """What was recorded, with the outcomes of the plain run where the two disagree.

    Recording slows tests down many times, and some look at what records them: what fails only then
    does not fail. Whether a test is flaky is asked for by its own.
    """
    known = plain.by_id()
    cases = tuple(
        known[case.id] if case.id in known and known[case.id].outcome.bad != case.outcome.bad else case
        for case in traced.cases
    )
    return replace(traced, cases=cases)


@contextmanager
def _impatient(runner: TestRunner, known: TestRun | None) -> Generator[None]:
    """What tests run shows early: none is waited for as long as when its outcome was the question.

    Where tests are known to hang this matters most, and for those that recording makes very slow.
    """
    before = runner.test_timeout_s
    if known is not None:
        ended = [case for case in known.report.cases if case.outcome is not Outcome.TIMEOUT]
        failing = max((case.duration_s for case in ended if case.outcome.bad), default=0.0)
        hang = len(ended) < len(known.report.cases)
        runner.test_timeout_s = min(before, max(_HANGING_S if hang else _RECORDED_S, _PATIENCE * failing))
    try:
        yield
    finally:
        runner.test_timeout_s = before


def is_large(report: TestReport) -> bool:
    """Whether recording everything would cost more than it tells."""
    return report.complete and len(report.cases) >= LARGE


def importers(workspace: Workspace, files: Iterable[str], targets: Sequence[str]) -> list[str]:
    """Test files that import some of the files, directly or through others; the nearest first."""
    imports: dict[str, frozenset[str]] = {}
    for path in sorted(files):
        if path.endswith(".py"):
            try:
                text = workspace.read(path, max_bytes=_MOST_BYTES).decode("utf-8", "replace")
            except ToolError:
                continue  # too large, or no plain file: then it is not known what it imports
            imports[path] = frozenset(imported(path, text))
    found: list[str] = []
    seen, level = set(targets), set(targets)
    for _ in range(_MOST_STEPS):
        names = {name for path in level for name in names_of(path)}
        level = {
            path for path, wanted in imports.items() if path not in seen and not names.isdisjoint(wanted)
        }
        seen |= level
        found += sorted(path for path in level if is_test_path(path))
        if not level:
            break
    return found


def imported(path: str, text: str) -> Iterator[str]:
    """Dotted names a Python file may import; of ``from a import b`` both ``a`` and ``a.b``."""
    package = PurePosixPath(path).parent.parts
    for match in _IMPORT.finditer(text):
        if match[3]:
            for part in match[3].split(","):
                name = _NAME.match(part.strip())
                if name:
                    yield name[0]
            continue
        module = match[1].lstrip(".")
        dots = len(match[1]) - len(module)
        if dots:
            base = package[: len(package) - dots + 1]
            module = ".".join((*base, module)) if module else ".".join(base)
        yield module
        for part in match[2].strip("() \t\n").split(","):
            name = _NAME.match(part.strip())
            if name:
                yield f"{module}.{name[0]}"


def names_of(path: str) -> list[str]:
    """Dotted names under which a file may be imported: from the root or any folder on the way."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts and parts[-1] == "__init__":
        parts.pop()
    return [".".join(parts[start:]) for start in range(len(parts))]


def _passing_of(report: TestReport, paths: Sequence[str]) -> list[str]:
    """Ids of passing tests of some files, in the order of the files; bounded."""
    passing = report.passing_ids()
    by_path: Mapping[str, list[str]] = {path: [] for path in paths}
    for case in report.cases:
        if case.path in by_path and case.id in passing:
            by_path[case.path].append(case.id)
    return [test for path in paths for test in by_path[path]][:_MOST_PASSING]
