"""From evidence to ranked functions and lines.

``outline`` splits files into statements, ``executed`` says which tests ran them, ``testview`` what
the failing tests call and what they say, ``reach`` how far functions are from that and what the
wrong value went through, ``features`` turns it all into numbers and ``weights`` into one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from ..source import FUNCTIONS, ModuleSource
from .features import Evidence
from .items import Item
from .model import Localisation, Location
from .outline import Outline
from .reasons import reasons_for
from .weights import suspicions

_TEMPER = 0.5
"""Exponent that brings probabilities to the suspiciousness of lines: the search must not give up
a place too early because another one looks much likelier."""
_PEAKED = 1.6
"""Exponent of a statement's suspicion in its function's: between the sum, which favours long functions,
and the highest, which forgets that several lines speak for one."""
_REST_OF_FUNCTION = 0.12
"""Share of its function's score for a line that no failing test ran."""
_HEADER = 0.5
"""Share for a function's own header (defaults, decorators) and the values at module level it uses."""
_DECLARED = 0.3
"""Share for the header of a function or class that a failing test names: what it makes has no own lines."""


def rank(
    outlines: Mapping[str, Outline],
    evidence: Evidence,
    notes: Iterable[str],
    mentioned: frozenset[str] = frozenset(),
) -> Localisation:
    """The ranking; equal evidence goes by path and line.

    Args:
        mentioned: simple names in the source of the failing tests.
    """
    items = evidence.items
    shares = suspicions([item.values for item in items])
    order = sorted(range(len(items)), key=lambda i: (-shares[i], items[i].path, items[i].statement.first))
    functions: dict[tuple[str, str], float] = {}
    best: dict[tuple[str, str], Item] = {}
    for index in order:
        item = items[index]
        place = (item.path, item.statement.function)
        functions[place] = functions.get(place, 0.0) + shares[index] ** _PEAKED
        best.setdefault(place, item)
    total = sum(functions.values()) or 1.0
    functions = {place: score / total for place, score in functions.items()}
    ranked = sorted(functions, key=lambda place: (-functions[place], place[0], best[place].statement.first))
    top = shares[order[0]] if order else 1.0
    levels: dict[str, dict[int, float]] = {path: {} for path in sorted(outlines)}
    for item, share in zip(items, shares, strict=True):
        level = (share / top) ** _TEMPER if top else 0.0
        for line in range(item.statement.first, item.statement.last + 1):
            levels[item.path][line] = max(level, levels[item.path].get(line, 0.0))
    return Localisation(
        tuple(_location(best[place], functions[place], evidence) for place in ranked),
        {path: _spread(outlines[path].source, lines, mentioned) for path, lines in levels.items()},
        {path: outlines[path].source for path in levels},
        tuple(notes),
        tuple(_location(items[index], shares[index], evidence) for index in order),
    )


def _location(item: Item, score: float, evidence: Evidence) -> Location:
    statement = item.statement
    return Location(
        item.path,
        statement.function,
        statement.first,
        statement.last,
        round(score, 4),
        reasons_for(item, evidence),
    )


def _spread(source: ModuleSource, scores: Mapping[int, float], mentioned: frozenset[str]) -> dict[int, float]:
    """Scores of statements, spread over the rest of their functions, headers and values they use."""
    spread = dict(scores)

    def raise_to(first: int, last: int, score: float) -> None:
        for line in range(first, last + 1):
            if score > spread.get(line, 0.0):
                spread[line] = score

    used: dict[str, float] = {}
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
            name = each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")
            used[name] = max(used.get(name, 0.0), best)
    for owner in [source.tree, *(each for each in ast.walk(source.tree) if isinstance(each, ast.ClassDef))]:
        for statement in owner.body:
            best = max((used.get(name, 0.0) for name in _stored(statement)), default=0.0)
            if best and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                raise_to(statement.lineno, statement.end_lineno or statement.lineno, best * _HEADER)
    for owner in ast.walk(source.tree):
        if isinstance(owner, FUNCTIONS) and owner.name in mentioned:
            # It may be bound in a way that keeps its own lines from running.
            first = min([owner.lineno, *(each.lineno for each in owner.decorator_list)])
            raise_to(first, owner.body[0].lineno - 1, _DECLARED)
        elif isinstance(owner, ast.ClassDef) and owner.name in mentioned:
            first = min([owner.lineno, *(each.lineno for each in owner.decorator_list)])
            raise_to(first, owner.lineno, _DECLARED)
            for statement in owner.body:
                if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                    raise_to(statement.lineno, statement.end_lineno or statement.lineno, _DECLARED)
    return dict(sorted(spread.items()))


def _stored(statement: ast.stmt) -> list[str]:
    nodes = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
    return [each.id for each in nodes if isinstance(each.ctx, ast.Store)]
