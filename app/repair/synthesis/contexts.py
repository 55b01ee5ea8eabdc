"""The value an expression would have with another value in the place of one of its parts.

Computed from recorded values and built-in operations; where an expression needs code of
the project between the part and the whole, nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .samples import Row
from .sites import Site, is_plain, level_of
from .terms import Opaque, Term, Undefined, kind_of, known, leaf, truth

_MOST_HOLES = 10
_MOST_INGREDIENTS = 8
_LONGEST = 60
_LARGEST = 10**30

_NUMBERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_CALLED: dict[str, Callable[..., Any]] = {
    "len": len,
    "abs": abs,
    "min": min,
    "max": max,
    "round": round,
    "int": int,
    "str": str,
    "bool": bool,
    "sum": sum,
}


def holes(site: Site) -> list[ast.expr]:
    """Parts of a site whose replacement can be computed through to the whole, outer ones first."""
    found: list[ast.expr] = []

    def visit(node: ast.expr) -> None:
        for child in _computed_children(node):
            if site.source.editable(child) and is_plain(child) and "\n" not in site.source.segment(child):
                found.append(child)
                visit(child)

    visit(site.node)
    return found[:_MOST_HOLES]


def _computed_children(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(op=op) if type(op) in _NUMBERS:
            yield from (node.left, node.right)
        case ast.Compare(ops=ops) if all(type(op) in _COMPARED for op in ops):
            yield from (node.left, *node.comparators)
        case ast.BoolOp():
            yield from node.values
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            yield from elements
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _CALLED:
            yield from node.args
        case ast.Subscript() if not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            yield node.slice
        case _:
            return


class Context:
    """A site as a function of the value in one of its holes."""

    def __init__(self, site: Site, hole: ast.expr | None) -> None:
        self._site = site
        self._hole = hole
        self._pieces = {each: position for position, each in enumerate(site.pieces)}
        self._path = {site.node, *(() if hole is None else site.source.ancestors(hole))}

    def value(self, row: Row, inner: Any) -> Any:
        """The whole expression's value at an evaluation.

        Raises:
            Undefined: not known.
            Exception: what the operations raise on such values.
        """
        return self._evaluate(self._site.node, row, inner)

    def elsewhere(self, node: ast.expr, rows: Sequence[Row]) -> list[Any] | None:
        """Values that another expression of the function would have here; None when some are not known."""
        try:
            return [self._evaluate(node, row, None) for row in rows]
        except Exception:  # noqa: BLE001  it raises, or is unknown, somewhere: it cannot stand here
            return None

    def kind(self, rows: Sequence[Row]) -> str | None:
        """The kind of values that the hole had, or None when that is not known."""
        if self._hole is None:
            return None
        try:
            return kind_of([self._evaluate(self._hole, row, None, original=True) for row in rows])
        except Exception:  # noqa: BLE001  the part itself may raise, or be unknown, somewhere
            return None

    def _evaluate(self, node: ast.expr, row: Row, inner: Any, *, original: bool = False) -> Any:
        if node is self._hole and not original:
            return inner
        position = self._pieces.get(node)
        if position is not None and (original or node not in self._path):
            seen = row.pieces[position]
            if seen is not None:
                return known(seen)
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return _known(row, name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                owner = row.snapshot.get(name)
                if owner is None or attribute not in owner.attributes:
                    raise Undefined
                return known(owner.attributes[attribute])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _NUMBERS:
                one, other = self._evaluate(left, row, inner), self._evaluate(right, row, inner)
                return _combined(op, one, other)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(o) in _COMPARED for o in ops
            ):
                one = self._evaluate(left, row, inner)
                for op, each in zip(ops, others, strict=True):
                    other = self._evaluate(each, row, inner)
                    if isinstance(one, Opaque) or isinstance(other, Opaque):
                        raise Undefined
                    if not _COMPARED[type(op)](one, other):
                        return False
                    one = other
                return True
            case ast.Compare(
                left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
            ):
                nothing = self._evaluate(left, row, inner) is None
                return nothing if isinstance(op, ast.Is) else not nothing
            case ast.BoolOp(op=op, values=values):
                value: Any = None
                for each in values:
                    value = self._evaluate(each, row, inner)
                    if truth(value) is isinstance(op, ast.Or):
                        break
                return value
            case ast.Tuple(elts=elements):
                return tuple(self._plain(each, row, inner) for each in elements)
            case ast.List(elts=elements):
                return [self._plain(each, row, inner) for each in elements]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not truth(self._evaluate(operand, row, inner))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._evaluate(operand, row, inner)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLED:
                given = [self._evaluate(each, row, inner) for each in arguments]
                if any(isinstance(each, Opaque) for each in given):
                    raise Undefined
                return _CALLED[name](*given)
            case ast.Subscript(value=holder, slice=index):
                container = self._evaluate(holder, row, inner)
                key = self._evaluate(index, row, inner)
                if isinstance(container, Opaque) or isinstance(key, Opaque):
                    raise Undefined
                return container[key]
            case _:
                raise Undefined

    def _plain(self, node: ast.expr, row: Row, inner: Any) -> Any:
        value = self._evaluate(node, row, inner)
        if isinstance(value, Opaque):
            raise Undefined
        return value


def ingredients(site: Site, rows: Sequence[Row]) -> list[Term]:
    """Expressions from elsewhere in the function whose values at the site can be computed, as leaves."""
    source = site.source
    function = source.function_of(site.node)
    if function is None:
        return []
    first: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, (ast.Subscript, ast.Call, ast.BinOp)) and source.editable(node):
            stored = isinstance(getattr(node, "ctx", ast.Load()), ast.Store)
            text = source.segment(node)
            if not stored and len(text) <= _LONGEST and "\n" not in text and is_plain(node):
                first.setdefault(text, node)
    context = Context(site, None)
    found: list[Term] = []
    for text, node in first.items():
        values = context.elsewhere(node, rows)
        if values is None:
            continue
        names = frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        found.append(leaf(text, values, cost=1.2, level=level_of(node), names=names))
    return found[:_MOST_INGREDIENTS]


def _known(row: Row, name: str) -> Any:
    seen = row.snapshot.get(name)
    if seen is None:
        raise Undefined
    return known(seen)


def _combined(op: ast.operator, one: Any, other: Any) -> Any:
    numbers = type(one) in (int, float, bool) and type(other) in (int, float, bool)
    if numbers and (abs(one) > _LARGEST or abs(other) > _LARGEST):
        raise Undefined
    if not numbers and not (
        isinstance(op, ast.Add) and type(one) is type(other) and type(one) in (str, list, tuple)
    ):
        raise Undefined
    return _NUMBERS[type(op)](one, other)
