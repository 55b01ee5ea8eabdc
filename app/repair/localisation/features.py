"""Evidence for each statement that failing tests ran, as numbers between 0 and 1 (a few to 3)."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....sandbox.workspace.names import is_test_path
from ...repo.testing.report import CollectionError, Outcome, TestCase
from ..spectra import Spectrum
from .executed import Executed
from .outline import Outline, Statement
from .reach import Place, Project, distances, slice_of
from .testview import TestFiles, TestView, words_of
from .traits import constants_of, content_of, kind_of, raises

MOST_TESTS = 8
"""Failing tests whose calls and slices are followed; an even choice of more."""
_MUCH_CONTENT = math.log1p(12.0)
_FAR = 12


@dataclass
class Item:
    """One statement with its evidence; ``trace`` says which frames of which tests it is in."""

    path: str
    statement: Statement
    tests: int
    values: dict[str, float] = field(default_factory=dict[str, float])
    frames: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """(test, exception, frames between this and where it was raised)."""


@dataclass
class Evidence:
    """All items, and what explains them to people."""

    items: list[Item]
    spectrum: Spectrum
    callers: dict[Place, str]
    """Function -> a failing test whose failing line depends on it directly."""
    far: dict[Place, int]
    """Function -> fewest calls from a failing test's own calls."""


def gather(
    outlines: Mapping[str, Outline],
    spectrum: Spectrum,
    failing: Sequence[TestCase],
    broken: Sequence[CollectionError],
    passing: Iterable[TestCase],
    tests: TestFiles,
    executed_by: Mapping[str, Mapping[str, frozenset[int]]],
    recent: Mapping[str, Mapping[int, float]],
) -> Evidence:
    """Evidence for every statement of the outlines that a failing test ran or that is in a traceback.

    Args:
        executed_by: test id -> path -> lines, as in a baseline.
        recent: path -> line -> how recently it changed, 0 to 1.
    """
    executed = {
        path: Executed(outline, spectrum.lines.get(path, {})) for path, outline in sorted(outlines.items())
    }
    project = Project(outlines, executed)
    items = _items(project, spectrum, [*failing, *broken])
    views = [tests.view(case, executed_by.get(case.id, {})) for case in _some(failing)]
    bits = [spectrum.bit.get(view.case.id, 0) for view in views]
    near = [distances(project, view.called, bit) for view, bit in zip(views, bits, strict=True)]
    _spectra(items, project, spectrum)
    _calls(items, project, views, near)
    _mentioned(items, tests, failing, passing)
    _slices(items, project, views, bits)
    _traces(items, project, [*failing, *broken])
    _failures(items, project, views)
    _statements(items, project, recent)
    callers: dict[Place, str] = {}
    far: dict[Place, int] = {}
    for view, found in zip(views, near, strict=True):
        for place, (steps, weight) in found.items():
            far[place] = min(steps, far.get(place, steps))
            if not steps and weight >= 0.6:
                callers.setdefault(place, view.case.id)
    return Evidence(items, spectrum, callers, far)


def _some(failing: Sequence[TestCase]) -> list[TestCase]:
    if len(failing) <= MOST_TESTS:
        return list(failing)
    return [failing[number * len(failing) // MOST_TESTS] for number in range(MOST_TESTS)]


def _items(project: Project, spectrum: Spectrum, cases: Sequence[TestCase | CollectionError]) -> list[Item]:
    wanted: dict[tuple[str, int], int] = {}
    for path, executed in project.executed.items():
        for statement in project.outlines[path].statements:
            tests = executed.statements[statement.index]
            if tests & spectrum.failing_mask:
                wanted[path, statement.index] = tests
    for case in cases:
        for frame in case.frames:
            outline = project.outlines.get(frame.path)
            statement = outline.at.get(frame.line) if outline is not None else None
            if statement is not None:
                wanted.setdefault((frame.path, statement.index), 0)
    return [
        Item(path, project.outlines[path].statements[index], tests)
        for (path, index), tests in sorted(wanted.items())
        if kind_of(project.outlines[path].statements[index]) not in ("text", "import")
    ]


def _spectra(items: Sequence[Item], project: Project, spectrum: Spectrum) -> None:
    functions: dict[Place, float] = {}
    top = max((spectrum.ochiai(item.tests) for item in items), default=0.0) or 1.0
    for item in items:
        counts = spectrum.counts(item.tests)
        value = spectrum.ochiai(item.tests)
        item.values["ochiai"] = value
        item.values["log_ochiai"] = max(0.0, 1 + math.log10(max(value, 1e-3) / top) / 3)
        item.values["dstar"] = spectrum.dstar(item.tests)
        item.values["cover"] = counts.failing / spectrum.total_failing if spectrum.total_failing else 0.0
        branch = max(
            (spectrum.ochiai(each) for each in project.executed[item.path].branches(item.statement)),
            default=0.0,
        )
        item.values["branch"] = max(0.0, branch - value)
        place = (item.path, item.statement.function)
        functions[place] = max(value, functions.get(place, 0.0))
    for item in items:
        best = functions[item.path, item.statement.function]
        item.values["function_ochiai"] = best
        item.values["within"] = item.values["ochiai"] / best if best else 1.0


def _calls(
    items: Sequence[Item],
    project: Project,
    views: Sequence[TestView],
    near: Sequence[Mapping[Place, tuple[int, float]]],
) -> None:
    share = 1 / max(1, len(views))
    known: dict[Place, dict[str, float]] = {}
    for item in items:
        place = (item.path, item.statement.function)
        if place not in known:
            values: dict[str, float] = dict.fromkeys(("called", "near", "title", "module"), 0.0)
            words = words_of(place[1].rpartition(".")[2])
            owner = words_of(place[1].rpartition(".")[0])
            stem = words_of(item.path.rpartition("/")[2].removesuffix(".py"))
            for view, found in zip(views, near, strict=True):
                steps, weight = found.get(place, (_FAR, 1.0))
                values["near"] += share * 0.6**steps
                values["called"] += share * (weight if not steps else 0.0)
                title = view.title - {"test"}
                if words and words <= title:
                    values["title"] += share * (len(words) / len(title) if title else 0.0) ** 0.5
                elif (words | owner) & title:
                    values["title"] += share * 0.3 * len((words | owner) & title) / len(title)
                module = view.module - {"test"}
                if stem & module:
                    values["module"] += share * len(stem & module) / len(stem | module)
            known[place] = values
        item.values |= known[place]


def _mentioned(
    items: Sequence[Item], tests: TestFiles, failing: Sequence[TestCase], passing: Iterable[TestCase]
) -> None:
    """Ochiai over tests that call a function by name, whatever else runs it."""
    counted: dict[str, list[int]] = {}
    for number, group in enumerate((failing, passing)):
        for case in group:
            for name in tests.mentions(case):
                counted.setdefault(name, [0, 0])[number] += 1
    total = len(failing)
    for item in items:
        name = item.statement.function.rpartition(".")[2]
        bad, good = counted.get(name, (0, 0))
        if name.startswith("__"):
            owner = item.statement.function.rpartition(".")[0].rpartition(".")[2]
            bad, good = counted.get(owner, (0, 0))
        item.values["mentioned"] = bad / math.sqrt(total * (bad + good)) if bad else 0.0


def _slices(items: Sequence[Item], project: Project, views: Sequence[TestView], bits: Sequence[int]) -> None:
    share = 1 / max(1, len(views))
    total: dict[tuple[str, int], float] = {}
    for view, bit in zip(views, bits, strict=True):
        frames = (
            [(f.path, f.line) for f in view.case.frames if f.path in project.outlines] if view.raised else []
        )
        for key, weight in slice_of(project, view.called, frames, bit).items():
            total[key] = total.get(key, 0.0) + share * weight
    for item in items:
        item.values["slice"] = total.get((item.path, item.statement.index), 0.0)


def _traces(items: Sequence[Item], project: Project, cases: Sequence[TestCase | CollectionError]) -> None:
    share = 1 / max(1, len(cases))
    by_place = {(item.path, item.statement.index): item for item in items}
    functions: dict[Place, float] = {}
    names = ("raised_here", "on_trace", "raised_in", "guards_raise", "feeds_raise")
    for item in items:
        item.values |= dict.fromkeys(names, 0.0)
    for case in cases:
        test = case.id if isinstance(case, TestCase) else case.path
        frames = [frame for frame in case.frames if frame.path in project.outlines]
        seen: set[tuple[str, int]] = set()
        for steps, frame in enumerate(reversed(frames)):
            outline = project.outlines[frame.path]
            statement = outline.at.get(frame.line)
            item = by_place.get((frame.path, statement.index)) if statement is not None else None
            if statement is None or item is None or (frame.path, statement.index) in seen:
                continue
            seen.add((frame.path, statement.index))
            item.frames.append((test, case.exception, steps))
            if steps:
                item.values["on_trace"] += share * 0.6 ** (steps - 1)
                continue
            item.values["raised_here"] += share
            place = (frame.path, statement.function)
            functions[place] = functions.get(place, 0.0) + share
            for header in outline.controls(statement):
                guard = by_place.get((frame.path, header.index))
                if guard is not None:
                    guard.values["guards_raise"] += share
                break
            uses = outline.flows[statement.index].uses
            for other in outline.by_function.get(statement.function, ()):
                maker = by_place.get((frame.path, other.index))
                if maker is None or other.index == statement.index:
                    continue
                if outline.flows[other.index].defines & uses:
                    maker.values["feeds_raise"] += share
    for item in items:
        item.values["raised_in"] = functions.get((item.path, item.statement.function), 0.0)


def _failures(items: Sequence[Item], project: Project, views: Sequence[TestView]) -> None:
    share = 1 / max(1, len(views))
    stuck = sum(view.case.outcome in (Outcome.TIMEOUT, Outcome.CRASHED) for view in views) * share
    nothing = sum(view.nothing for view in views) * share
    odd: dict[str, float] = {}
    expected: dict[str, float] = {}
    for view in views:
        for token in view.odd:
            if not token.isdigit():
                odd[token] = odd.get(token, 0.0) + share
        if view.expected:
            expected[view.expected] = expected.get(view.expected, 0.0) + share
    for item in items:
        statement = item.statement
        kind = kind_of(statement)
        outline = project.outlines[item.path]
        item.values["odd_constant"] = max(
            (odd.get(text, 0.0) for text in constants_of(statement)), default=0.0
        ) if odd else 0.0  # fmt: skip
        guarded = 0.0
        if expected:
            if kind == "if":
                for other in outline.by_function.get(statement.function, ()):
                    if other.control == statement.index:
                        guarded = max(guarded, expected.get(raises(other), 0.0))
            guarded = max(guarded, expected.get(raises(statement), 0.0))
        item.values["should_raise"] = guarded
        looping = kind == "loop" or any(
            isinstance(header.node, (ast.While, ast.For)) for header in outline.controls(statement)
        )
        item.values["stuck_loop"] = stuck if looping else 0.0
        gives_none = isinstance(statement.node, ast.Return) and (
            statement.node.value is None
            or (isinstance(statement.node.value, ast.Constant) and statement.node.value.value is None)
        )
        item.values["gives_none"] = nothing if gives_none else 0.0


def _statements(items: Sequence[Item], project: Project, recent: Mapping[str, Mapping[int, float]]) -> None:
    sizes: dict[Place, int] = {}
    for item in items:
        place = (item.path, item.statement.function)
        sizes[place] = sizes.get(place, 0) + 1
    for item in items:
        statement = item.statement
        item.values["content"] = min(1.0, math.log1p(content_of(statement)) / _MUCH_CONTENT)
        item.values[f"kind_{kind_of(statement)}"] = 1.0
        item.values["large_function"] = min(3.0, math.log2(1 + sizes[item.path, statement.function]) / 2)
        item.values["display"] = float("repr" in statement.function and not item.frames)
        lines = recent.get(item.path, {})
        item.values["recent"] = max(
            (lines.get(line, 0.0) for line in range(statement.first, statement.last + 1)), default=0.0
        )
        item.values["untraced"] = float(not item.tests)


def is_candidate(path: str) -> bool:
    """Whether a fault may be looked for in the file: a project's Python file that is no test."""
    return path.endswith(".py") and not path.startswith(("/", "..")) and not is_test_path(path)
