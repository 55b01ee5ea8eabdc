"""Fault localisation: which functions and lines are suspicious, and why.

Signals: Ochiai over per-test line coverage, frames of the failing tests' tracebacks
(the innermost frame in the project counts most), and functions that the failing
assertion names. Without coverage the traces alone are used, and that is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...sandbox.base.errors import ToolError
from ...sandbox.workspace.names import is_test_path
from ..repo.testing.report import CollectionError, TestCase, TraceFrame
from ..tools.base import ToolContext
from .baseline import Baseline
from .source import FUNCTIONS, ModuleSource, UnreadableSource
from .spectra import Counts, count_lines, ochiai

_TRACE_WEIGHT = 0.6
_TRACE_DECAY = 0.6
_NAMED_WEIGHT = 0.1
_DISPLAY_SHARE = 0.3
_CONTENT_WEIGHT = 0.08
_MUCH_CONTENT = 6
_REST_OF_FUNCTION = 0.12
"""Share of its function's score for a line that no failing test ran."""
_HEADER = 0.5
"""Share for a function's own header (defaults, decorators) and the values at module level it uses."""
_WORD = re.compile(r"[A-Za-z_]\w*")


_CONTENT = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.IfExp, ast.Subscript, ast.Constant)


@dataclass(frozen=True)
class Location:
    """One suspicious place; ``line`` is the most suspicious line of the function."""

    path: str
    function: str
    line: int
    end_line: int
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Localisation:
    """Ranked functions, and the suspiciousness of every line of their files (0 to 1]."""

    locations: tuple[Location, ...]
    lines: Mapping[str, Mapping[int, float]]
    sources: Mapping[str, ModuleSource]
    notes: tuple[str, ...] = ()


@dataclass
class _FileSignals:
    scores: dict[int, float] = field(default_factory=dict[int, float])
    counts: dict[int, Counts] = field(default_factory=dict[int, Counts])
    reasons: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    def add(self, line: int, score: float, reason: str) -> None:
        self.scores[line] = self.scores.get(line, 0.0) + score
        self.reasons.setdefault(line, []).append(reason)


def localise(context: ToolContext, baseline: Baseline) -> Localisation:
    """Ranks the places that may explain the baseline's failing tests."""
    signals: dict[str, _FileSignals] = {}
    notes: list[str] = []
    failing = [case.id for case in baseline.failing]
    counted = count_lines(baseline.coverage, failing, sorted(baseline.passing))
    for path, lines in counted.items():
        if _is_candidate(path):
            for line, counts in lines.items():
                file = signals.setdefault(path, _FileSignals())
                file.counts[line] = counts
                file.scores[line] = ochiai(counts, len(failing))
    if not counted:
        notes.append("no line coverage of the failing tests: the ranking rests on their tracebacks alone")
    for case in [*baseline.failing, *baseline.broken]:
        _add_trace(signals, case, 1 / max(1, len(baseline.targets)))
    named = _named_by_tests(baseline.failing)
    sources: dict[str, ModuleSource] = {}
    for path in list(signals):
        try:
            sources[path] = ModuleSource(path, context.workspace.read(path))
        except (UnreadableSource, ToolError) as error:
            notes.append(f"left out: {error}")
            del signals[path]
    locations: list[Location] = []
    lines_by_file: dict[str, dict[int, float]] = {}
    for path, file in signals.items():
        _add_names(file, sources[path], named)
        _add_content(file, sources[path])
        _discount_display(file, sources[path])
    top = max((max(file.scores.values(), default=0.0) for file in signals.values()), default=0.0)
    for path, file in signals.items():
        scaled = {line: score / top for line, score in file.scores.items()} if top else {}
        lines_by_file[path] = _spread(sources[path], scaled)
        locations += _rank_functions(path, sources[path], file, scaled)
    locations.sort(key=lambda place: (-place.score, place.path, place.line))
    return Localisation(tuple(locations), lines_by_file, sources, tuple(notes))


def out_of_reach(baseline: Baseline) -> tuple[str, ...]:
    """Failing tests that ran no line of the project outside tests: no edit of source can change them.

    Empty without coverage, and when it would be all of them.
    """
    if not baseline.coverage:
        return ()
    lost: list[str] = []
    for case in baseline.failing:
        ran = any(_is_candidate(path) and lines for path, lines in baseline.coverage.get(case.id, {}).items())
        if not ran and not any(frame.in_repository and _is_candidate(frame.path) for frame in case.frames):
            lost.append(case.id)
    return tuple(lost) if len(lost) < len(baseline.targets) else ()


def _is_candidate(path: str) -> bool:
    return path.endswith(".py") and not path.startswith(("/", "..")) and not is_test_path(path)


def _add_trace(signals: dict[str, _FileSignals], case: TestCase | CollectionError, share: float) -> None:
    frames = [frame for frame in case.frames if frame.in_repository and _is_candidate(frame.path)]
    name = case.id if isinstance(case, TestCase) else case.path
    weight = _TRACE_WEIGHT * share
    seen: set[tuple[str, int]] = set()
    for distance, frame in enumerate(reversed(frames)):
        if (frame.path, frame.line) in seen:
            continue
        seen.add((frame.path, frame.line))
        how = (
            f"{case.exception or 'the failure'} was raised here"
            if distance == 0
            else "on the way to the failure"
        )
        signals.setdefault(frame.path, _FileSignals()).add(frame.line, weight, f"{how} in {name}")
        weight *= _TRACE_DECAY


def _named_by_tests(cases: Iterable[TestCase]) -> dict[str, str]:
    """Words on the failing lines of tests, with the test that holds them."""
    found: dict[str, str] = {}
    for case in cases:
        frames: list[TraceFrame] = [frame for frame in case.frames if is_test_path(frame.path)]
        for frame in frames[-1:]:
            for word in _WORD.findall(frame.code):
                found.setdefault(word, case.id)
    return found


def _add_names(file: _FileSignals, source: ModuleSource, named: Mapping[str, str]) -> None:
    for node in ast.walk(source.tree):
        if isinstance(node, FUNCTIONS) and node.name in named:
            inside = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            for line in inside:
                if line in file.counts:
                    file.add(
                        line,
                        _NAMED_WEIGHT,
                        f"{node.name} is called by the failing line of {named[node.name]}",
                    )


def _add_content(file: _FileSignals, source: ModuleSource) -> None:
    """Among equals, a line that computes or decides more is likelier wrong; too weak to be a reason."""
    content: dict[int, int] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, _CONTENT) and node.lineno in file.scores:
            content[node.lineno] = content.get(node.lineno, 0) + 1
    for line, count in content.items():
        file.scores[line] += _CONTENT_WEIGHT * min(count, _MUCH_CONTENT) / _MUCH_CONTENT


def _discount_display(file: _FileSignals, source: ModuleSource) -> None:
    """Failing assertions show their values, so ``repr`` code runs in failing tests whatever the fault is."""
    for node in ast.walk(source.tree):
        if isinstance(node, FUNCTIONS) and "repr" in node.name:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                if line in file.scores and not file.reasons.get(line):
                    file.scores[line] *= _DISPLAY_SHARE


def _spread(source: ModuleSource, scores: Mapping[int, float]) -> dict[int, float]:
    """Scores of executed lines, spread over statements, function headers and values they use."""
    spread = dict(scores)

    def raise_to(first: int, last: int, score: float) -> None:
        for line in range(first, last + 1):
            if score > spread.get(line, 0.0):
                spread[line] = score

    used: dict[str, float] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            last = node.end_lineno or node.lineno
            best = max((scores.get(line, 0.0) for line in range(node.lineno, last + 1)), default=0.0)
            raise_to(node.lineno, last, best)
    for node in ast.walk(source.tree):
        if not isinstance(node, FUNCTIONS):
            continue
        first, last = node.body[0].lineno, node.end_lineno or node.lineno
        best = max((scores.get(line, 0.0) for line in range(first, last + 1)), default=0.0)
        if not best:
            continue
        header = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        raise_to(header, first - 1, best * _HEADER)
        raise_to(first, last, best * _REST_OF_FUNCTION)
        for each in ast.walk(node):
            name = (
                each.id
                if isinstance(each, ast.Name)
                else each.attr
                if isinstance(each, ast.Attribute)
                else ""
            )
            used[name] = max(used.get(name, 0.0), best)
    for owner in [source.tree, *(each for each in ast.walk(source.tree) if isinstance(each, ast.ClassDef))]:
        for statement in owner.body:
            best = max((used.get(name, 0.0) for name in _stored(statement)), default=0.0)
            if best and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                raise_to(statement.lineno, statement.end_lineno or statement.lineno, best * _HEADER)
    return dict(sorted(spread.items()))


def _stored(statement: ast.stmt) -> list[str]:
    nodes = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
    return [each.id for each in nodes if isinstance(each.ctx, ast.Store)]


def _rank_functions(
    path: str, source: ModuleSource, file: _FileSignals, scaled: Mapping[int, float]
) -> Iterable[Location]:
    best: dict[str, tuple[float, int]] = {}
    owners = _owners(source)
    for line, score in sorted(scaled.items()):
        name = owners.get(line, "<module>")
        if score > best.get(name, (0.0, 0))[0]:
            best[name] = (score, line)
    for name, (score, line) in best.items():
        yield Location(path, name, line, _end_of(source, line), round(score, 4), _reasons(file, line))


def _reasons(file: _FileSignals, line: int) -> tuple[str, ...]:
    reasons = list(dict.fromkeys(file.reasons.get(line, [])))
    counts = file.counts.get(line)
    if counts is not None:
        reasons.append(f"run by {counts.failing} failing and {counts.passing} passing tests")
    return tuple(reasons)


def _owners(source: ModuleSource) -> dict[int, str]:
    """Line -> dotted name of the innermost function, its header included."""
    owners: dict[int, str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                if isinstance(child, FUNCTIONS):
                    for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                        owners[line] = name
                visit(child, f"{name}.")
            else:
                visit(child, prefix)

    visit(source.tree, "")
    return owners


def owner_of(source: ModuleSource, line: int) -> str:
    """Dotted name of the innermost function around a line, or ``<module>``."""
    return _owners(source).get(line, "<module>")


def _end_of(source: ModuleSource, line: int) -> int:
    """Last line of the simple statement (or compound header) that starts at or spans a line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            last = node.end_lineno or node.lineno
            if node.lineno <= line <= last:
                return last
    return line
