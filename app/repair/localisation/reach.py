"""From what a test calls to what its wrong value went through: call graph, distances, slices."""

from __future__ import annotations

import ast
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .executed import Executed
from .outline import Outline, Statement

_CALL_DECAY = 0.75
_DEPENDENCE_DECAY = 0.93
_FRAME_DECAY = 0.7
_LEAST = 0.04
_MOST_FUNCTIONS = 80
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "__call__")

Place = tuple[str, str]
"""Path and dotted function name."""


@dataclass(frozen=True)
class Project:
    """The outlined files, by path, with what tests ran of them."""

    outlines: Mapping[str, Outline]
    executed: Mapping[str, Executed]
    by_name: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Simple name -> functions; a class's name -> its constructors."""

    def __post_init__(self) -> None:
        for path, outline in self.outlines.items():
            for name, place in outline.functions.items():
                self.by_name.setdefault(place.simple, []).append((path, name))
                if place.owner and place.simple in _CONSTRUCTORS:
                    self.by_name.setdefault(place.owner, []).append((path, name))
        for outline in self.outlines.values():
            for alias, name in outline.aliases.items():
                for place in self.by_name.get(name, ()):
                    if alias != name and place not in self.by_name.setdefault(alias, []):
                        self.by_name[alias].append(place)

    def ran(self, place: Place, test: int) -> bool:
        return bool(self.executed[place[0]].functions.get(place[1], 0) & test)

    def resolve(self, name: str, caller: Place | None, test: int) -> list[Place]:
        """Functions run by the test that a call by simple name may mean, the closest kind only."""
        found = [place for place in self.by_name.get(name, ()) if self.ran(place, test)]
        if caller is None or len(found) < 2:
            return found
        nested = [each for each in found if each[0] == caller[0] and each[1] == f"{caller[1]}.{name}"]
        if nested:
            return nested
        return found


def distances(project: Project, start: Mapping[str, float], test: int) -> dict[Place, tuple[int, float]]:
    """Fewest calls from the test's own calls to each function that it ran, and the first call's weight."""
    found: dict[Place, tuple[int, float]] = {}
    frontier: list[Place] = []
    for name, weight in start.items():
        for place in project.resolve(name, None, test):
            if place not in found:
                frontier.append(place)
            found[place] = (0, max(weight, found.get(place, (0, 0.0))[1]))
    step = 0
    while frontier:
        step += 1
        following: list[Place] = []
        for place in frontier:
            for callee in callees(project, place, test):
                if callee not in found:
                    found[callee] = (step, found[place][1])
                    following.append(callee)
        frontier = following
    return found


def callees(project: Project, place: Place, test: int) -> Iterable[Place]:
    """Functions run by the test that statements of a function, run by it, may call."""
    executed = project.executed[place[0]]
    outline = project.outlines[place[0]]
    seen: dict[Place, None] = {}
    for statement in outline.by_function.get(place[1], ()):
        if executed.statements[statement.index] & test:
            for name in outline.flows[statement.index].calls:
                seen.update(dict.fromkeys(project.resolve(name, place, test)))
    for name in outline.functions:
        if name.startswith(f"{place[1]}.") and project.ran((place[0], name), test):
            seen[place[0], name] = None
    return seen


def slice_of(
    project: Project,
    start: Mapping[str, float],
    frames: Iterable[tuple[str, int]],
    test: int,
) -> dict[tuple[str, int], float]:
    """How directly each executed statement may have made the wrong value: (path, index) -> weight to 1.

    Backwards along data and control dependence over the statements this test ran, from what the
    called functions return (or from the lines in ``frames``, innermost last, when it raised), and on
    into the functions that those statements call.
    """
    weights: dict[tuple[str, int], float] = {}
    waiting: list[tuple[float, Place, int]] = []
    reached: dict[Place, float] = {}
    weight = 1.0
    raised = False
    for path, line in reversed(list(frames)):
        outline = project.outlines.get(path)
        statement = outline.at.get(line) if outline is not None else None
        if outline is None or statement is None:
            continue
        raised = True
        heapq.heappush(waiting, (-weight, (path, statement.function), statement.index))
        weight *= _FRAME_DECAY
    if not raised:
        for name, directness in sorted(start.items()):
            for place in project.resolve(name, None, test):
                heapq.heappush(waiting, (-directness, place, -1))
    while waiting and len(reached) < _MOST_FUNCTIONS:
        negative, place, seed = heapq.heappop(waiting)
        if -negative < _LEAST or reached.get(place, 0.0) >= -negative:
            continue
        reached[place] = -negative
        outline, executed = project.outlines[place[0]], project.executed[place[0]]
        ran = [
            each for each in outline.by_function.get(place[1], ()) if executed.statements[each.index] & test
        ]
        seeds = [outline.statements[seed]] if seed >= 0 else _outcomes(ran)
        for index, share in _backwards(outline, ran, seeds).items():
            value = -negative * share
            key = (place[0], index)
            weights[key] = max(value, weights.get(key, 0.0))
            for name, directness in outline.flows[index].calls.items():
                for callee in project.resolve(name, place, test):
                    heapq.heappush(waiting, (-value * directness * _CALL_DECAY, callee, -1))
        for name in outline.functions:
            if name.startswith(f"{place[1]}.") and project.ran((place[0], name), test):
                heapq.heappush(waiting, (negative * _CALL_DECAY, (place[0], name), -1))
    return weights


def _outcomes(ran: list[Statement]) -> list[Statement]:
    """Statements through which a function's effect leaves it; all of them when none is seen."""
    found = [each for each in ran if _leaves(each.node)]
    return found or ran


def _leaves(node: ast.stmt | ast.ExceptHandler) -> bool:
    if isinstance(node, ast.Return):
        return node.value is not None
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
        if any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in targets):
            return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return True
    value = getattr(node, "value", None)
    return isinstance(value, (ast.Yield, ast.YieldFrom, ast.Await))


def _backwards(outline: Outline, ran: list[Statement], seeds: list[Statement]) -> dict[int, float]:
    """Statement index -> share, from the seeds through definitions of used names and deciding headers."""
    makers: dict[str, list[int]] = {}
    for statement in ran:
        for name in outline.flows[statement.index].defines:
            makers.setdefault(name, []).append(statement.index)
    here = {each.index for each in ran}
    share = {each.index: 1.0 for each in seeds}
    frontier = list(share)
    while frontier:
        following: list[int] = []
        for index in frontier:
            value = share[index] * _DEPENDENCE_DECAY
            before = [i for name in outline.flows[index].uses for i in makers.get(name, ())]
            control = outline.statements[index].control
            if control is not None:
                before.append(control)
            for each in before:
                if each in here and each not in share:
                    share[each] = value
                    following.append(each)
        frontier = sorted(following)
    return share
