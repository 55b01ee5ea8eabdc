"""Evidence for each statement that failing tests ran, as numbers between 0 and 1 (a few to 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...repo.testing.report import CollectionError, TestCase
from ..spectra import Spectrum
from .executed import Executed
from .items import Item, find_items
from .outline import Outline
from .reach import Place, Project, distances, slice_of
from .symptoms import add_symptoms
from .testview import TestFiles, TestView, words_of
from .traits import content_of, kind_of

MOST_TESTS = 8
"""Failing tests whose calls and slices are followed; an even choice of more."""
_MUCH_CONTENT = math.log1p(12.0)
_FAR = 12


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
    items = find_items(project, spectrum, [*failing, *broken])
    views = [tests.view(case, executed_by.get(case.id, {})) for case in _some(failing)]
    bits = [spectrum.bit.get(view.case.id, 0) for view in views]
    near = [distances(project, view.called, bit) for view, bit in zip(views, bits, strict=True)]
    _spectra(items, project, spectrum)
    _calls(items, project, views, near)
    _mentioned(items, tests, failing, passing)
    _slices(items, project, views, bits)
    add_symptoms(items, project, [*failing, *broken], views, bits)
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


def _spectra(items: Sequence[Item], project: Project, spectrum: Spectrum) -> None:
    functions: dict[Place, float] = {}
    top = max((spectrum.ochiai(item.tests) for item in items), default=0.0) or 1.0
    for item in items:
        counts = spectrum.counts(item.tests)
        value = spectrum.ochiai(item.tests)
        item.values["ochiai"] = value
        item.values["log_ochiai"] = max(0.0, 1 + math.log10(max(value, 1e-3) / top) / 3)
        item.values["relative"] = value / top
        item.values["peak"] = float(value >= top)
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
