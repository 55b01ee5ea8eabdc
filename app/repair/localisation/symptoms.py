"""What the failures themselves point at: tracebacks, compared values, missing exceptions, endless loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...repo.testing.report import CollectionError, Outcome, TestCase
from .executed import Executed
from .items import Item
from .outline import Outline, own_parts
from .reach import Place, Project
from .testview import TestView
from .traits import constants_of, kind_of, raises


def add_symptoms(
    items: Sequence[Item],
    project: Project,
    cases: Sequence[TestCase | CollectionError],
    views: Sequence[TestView],
    bits: Sequence[int],
) -> None:
    """Adds to the items' values what the failures of the cases (``views`` of some of them) show."""
    _traces(items, project, cases)
    _failures(items, project, views)
    _nothing(items, project, views, bits)


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


def _nothing(items: Sequence[Item], project: Project, views: Sequence[TestView], bits: Sequence[int]) -> None:
    """Where a None shows, functions that gave nothing although a value was asked of them."""
    share = 1 / max(1, len(views))
    silent: dict[Place, float] = {}
    for view, bit in zip(views, bits, strict=True):
        if not (view.nothing or "NoneType" in view.case.message):
            continue
        for path, outline in project.outlines.items():
            executed = project.executed[path]
            for name, tests in executed.functions.items():
                if tests & bit and not _gave_value(outline, executed, name, bit):
                    silent[path, name] = silent.get((path, name), 0.0) + share
    for item in items:
        item.values["gave_nothing"] = silent.get((item.path, item.statement.function), 0.0)


def _gave_value(outline: Outline, executed: Executed, name: str, test: int) -> bool:
    """Whether the test ran a statement of the function that returns or yields something."""
    if outline.functions[name].simple in ("__init__", "__setitem__", "__delitem__", "__exit__"):
        return True
    for statement in outline.by_function.get(name, ()):
        if not executed.statements[statement.index] & test:
            continue
        node = statement.node
        if isinstance(node, ast.Return):
            nothing = isinstance(node.value, ast.Constant) and node.value.value is None
            if node.value is not None and not nothing:
                return True
        if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own_parts(node)):
            return True
    return False
