"""What is known about one place: its evaluations in failing and passing tests, and the leaves of terms."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..scope import ModuleView
from ..values import RuntimeValues, Seen, Snapshot, Spot
from .sites import Site, level_of
from .terms import ATOM, SIGN, Opaque, Term, known, leaf

_MOST_ROWS = 40
_MOST_NAMES = 14
_MOST_LEAVES = 26
_MOST_ATTRIBUTES = 16
_MOST_CONSTANTS = 6


@dataclass(frozen=True)
class Row:
    """One evaluation. ``result`` is None when the expression raised."""

    test: str
    number: int
    snapshot: Snapshot
    result: Seen | None
    pieces: tuple[Seen | None, ...]


@dataclass(frozen=True)
class Samples:
    """All evaluations of a site that were seen."""

    site: Site
    failing: dict[str, tuple[Row, ...]]
    """Test id -> its first evaluations, in order."""
    passing: tuple[Row, ...]
    """Distinct evaluations in passing tests."""
    hits: dict[str, int]
    """Failing test id -> how often it evaluates the site."""


def gather(site: Site, values: RuntimeValues, failing: Collection[str]) -> Samples:
    """The site's evaluations out of everything observed."""
    seen = values.at(site.spot)
    pieces = [Spot.of(site.path, each) for each in site.pieces]
    bad: dict[str, tuple[Row, ...]] = {}
    good: dict[object, Row] = {}
    for test in seen:
        rows = _rows(values, site.spot, pieces, test)
        if test in failing:
            bad[test] = rows
        elif test:
            for row in rows:
                good.setdefault(_content(row), row)
    hits = {test: values.hits(site.spot, test) for test in bad}
    return Samples(
        site, {test: bad[test] for test in failing if test in bad}, _spread(list(good.values())), hits
    )


def _rows(values: RuntimeValues, spot: Spot, pieces: Sequence[Spot], test: str) -> tuple[Row, ...]:
    snapshots = values.at(spot)[test]
    parts: list[Sequence[Snapshot]] = []
    for piece in pieces:
        # A piece that is not evaluated each time cannot be matched with the evaluations of the whole.
        aligned = values.hits(piece, test) == values.hits(spot, test)
        parts.append(values.at(piece).get(test, ()) if aligned else ())
    return tuple(
        Row(
            test,
            number,
            snapshot,
            snapshot.result,
            tuple(part[number].result if number < len(part) else None for part in parts),
        )
        for number, snapshot in enumerate(snapshots)
    )


def _content(row: Row) -> object:
    names = tuple((name, _shown(seen)) for name, seen in row.snapshot.names.items())
    return names, None if row.result is None else _shown(row.result)


def _shown(seen: Seen) -> object:
    inner = tuple((name, each.type, each.text) for name, each in seen.attributes.items())
    return seen.type, seen.text, seen.length, inner


def _spread(rows: list[Row]) -> tuple[Row, ...]:
    """Evenly chosen rows when there are too many."""
    if len(rows) <= _MOST_ROWS:
        return tuple(rows)
    return tuple(rows[index * len(rows) // _MOST_ROWS] for index in range(_MOST_ROWS))


def leaves_for(site: Site, rows: Sequence[Row], view: ModuleView, *, itself: bool) -> list[Term]:
    """Names, attributes, pieces of the expression and constants that have values in all rows.

    ``itself``: with the whole expression as one of the leaves.
    """
    if not rows:
        return []
    found = [*_own(site, rows, itself=itself), *_names(site, rows), *_constants(site, view, len(rows))]
    first: dict[str, Term] = {}
    for term in found:
        first.setdefault(term.text, term)
    # What stands near comes first; with too many, nothing but pairs would ever be built.
    return sorted(first.values(), key=lambda term: (term.cost, term.text))[:_MOST_LEAVES]


def _own(site: Site, rows: Sequence[Row], *, itself: bool) -> list[Term]:
    nodes: list[tuple[ast.expr, list[Seen | None]]] = []
    if itself and "\n" not in site.text and not isinstance(site.node, ast.Constant):
        nodes.append((site.node, [row.result for row in rows]))
    for position, piece in enumerate(site.pieces):
        nodes.append((piece, [row.pieces[position] for row in rows]))
    found: list[Term] = []
    for node, seen in nodes:
        present = [each for each in seen if each is not None]
        if len(present) == len(rows):
            text = site.source.segment(node)
            values = [known(each) for each in present]
            names = frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
            own = node is site.node
            found.append(leaf(text, values, cost=0.9, level=level_of(node), names=names, own=own))
    return found


def _names(site: Site, rows: Sequence[Row]) -> list[Term]:
    found: list[Term] = []
    local = [name for name in rows[0].snapshot.names if all(name in row.snapshot.names for row in rows)]
    local.sort(key=lambda name: (name not in site.identifiers, name not in site.neighbours))
    for name in local[:_MOST_NAMES]:
        seen = [row.snapshot.names[name] for row in rows]
        if name not in ("self", "cls"):
            found.append(leaf(name, [known(each) for each in seen], cost=_cost(site, name, 1.0)))
        found += _attributes(site, name, seen)
    outer = [name for name in rows[0].snapshot.outer if all(name in row.snapshot.outer for row in rows)]
    outer.sort(key=lambda name: (name not in site.neighbours, not name.isupper()))
    for name in outer[:_MOST_NAMES]:
        seen = [row.snapshot.outer[name] for row in rows]
        if all(each.exact for each in seen):
            found.append(leaf(name, [each.value for each in seen], cost=_cost(site, name, 1.4)))
    return found


def _attributes(site: Site, name: str, seen: Sequence[Seen]) -> list[Term]:
    first = seen[0].attributes
    shared = [each for each in first if all(each in one.attributes for one in seen)]
    if name != "self":
        shared = [each for each in shared if not each.startswith("_")]
    shared.sort(key=lambda each: (each not in site.identifiers, each not in site.neighbours))
    cost = 0.7 if name == "self" else 0.9
    return [
        leaf(
            f"{name}.{attribute}",
            [known(one.attributes[attribute]) for one in seen],
            cost=cost + _cost(site, attribute, 1.0),
            size=1 if name == "self" else 2,
            names=frozenset((name, attribute)),
        )
        for attribute in shared[:_MOST_ATTRIBUTES]
    ]


def _cost(site: Site, name: str, otherwise: float) -> float:
    """What stands in the expression, or near it, is likelier to be meant."""
    if name in site.identifiers:
        return 0.8 * otherwise
    return (0.9 if name in site.neighbours else 1.0) * otherwise


def _constants(site: Site, view: ModuleView, count: int) -> list[Term]:
    weighted: dict[tuple[type, Any], float] = {
        (int, 0): 1.0,
        (int, 1): 1.0,
        (str, ""): 1.4,
        (int, -1): 1.7,
        (int, 2): 1.6,
    }
    function = view.source.function_of(site.node)
    if function is not None:
        for kind in (int, float, str):
            for value in view.constants(function, kind)[:_MOST_CONSTANTS]:
                if len(str(value)) <= 40:
                    weighted.setdefault((kind, value), 1.3)
    return [constant(value, count, cost) for (_, value), cost in weighted.items()]


def constant(value: Any, count: int, cost: float) -> Term:
    """A literal as a term; the text is Python's own."""
    negative = type(value) in (int, float) and value < 0
    level = SIGN if negative else ATOM - 1 if type(value) in (int, float) else ATOM
    return leaf(repr(value), [value] * count, cost=cost, level=level, constant=True, names=frozenset())


def value_text(value: Any) -> str | None:
    """Python source for a plain value, or None."""
    if isinstance(value, Opaque):
        return None
    text = repr(value)
    return None if "inf" in text or "nan" in text else text
