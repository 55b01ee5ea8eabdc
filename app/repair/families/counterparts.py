"""The larger or smaller of two alike values, where only one of them is taken."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..facts import walk
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit

_PART = (ast.Attribute, ast.Subscript)
_MOST = 3
_HIGH = ("end", "stop", "high", "upper", "max", "maximum", "last", "finish", "right", "bottom", "to", "until")
_LOW = ("start", "low", "lower", "min", "minimum", "first", "begin", "left", "top", "since")


class Counterparts(Family):
    name = "counterpart"
    prior = 0.66
    trust = 0.85
    fault = "took one of two values where the larger or smaller counts"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        statement = view.source.statement_of(node)
        function = view.source.function_of(node)
        if statement is None or function is None:
            return
        for value in _taken(node):
            if not view.source.editable(value):
                continue
            own = view.source.segment(value)
            start, end = view.source.span(value)
            for rank, other in enumerate(_alike(value, statement, function, view)[:_MOST]):
                high, low = _leaning(value)
                for called, weight in (("max", high), ("min", low)):
                    yield Proposal(
                        (Edit(start, start, f"{called}("), Edit(end, end, f", {other})")),
                        f"takes the {'larger' if called == 'max' else 'smaller'} of {own} and {other}",
                        weight - 0.12 * rank,
                    )


_Value = ast.Attribute | ast.Subscript | ast.Name


def _taken(node: ast.AST) -> Iterator[_Value]:
    """Values that are handed on as they are."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in ("max", "min", "len", "print"):
        values = [*node.args, *(each.value for each in node.keywords)]
    elif isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load):
        values = node.elts
    elif isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:
        values = [node.value]
    yield from (each for each in values if isinstance(each, (*_PART, ast.Name)))


def _alike(value: _Value, statement: ast.stmt, function: ast.AST, view: ModuleView) -> list[str]:
    """What the value replaces, and the same part of other objects: of the statement, then of the function."""
    own = ast.unparse(value)
    found: dict[str, None] = {}
    if isinstance(statement, ast.Assign) and statement.value is value:
        target = statement.targets[0]
        if isinstance(target, _PART) or (
            isinstance(target, ast.Name) and _from_before(statement, target, view)
        ):
            found[ast.unparse(target)] = None
    if not isinstance(value, ast.Name):
        part = own.removeprefix(ast.unparse(value.value))
        known = {ast.unparse(each) for each in walk(view, function) if isinstance(each, _PART)}
        for scope in (statement, function):
            for each in walk(view, scope):
                if isinstance(each, ast.Attribute) and isinstance(each.value, (ast.Name, *_PART)):
                    text = ast.unparse(each.value) + part
                    if scope is statement or text in known:
                        found[text] = None
    found.pop(own, None)
    return list(found)


def _from_before(statement: ast.stmt, target: ast.Name, view: ModuleView) -> bool:
    """Whether a loop overwrites what the name held before it."""
    loop, function = view.source.loop_of(statement), view.source.function_of(statement)
    if loop is None or function is None:
        return False
    return any(
        isinstance(each, ast.Name)
        and each.id == target.id
        and isinstance(each.ctx, ast.Store)
        and each.lineno < statement.lineno
        for each in walk(view, function)
    )


def _leaning(value: _Value) -> tuple[float, float]:
    """Weights of max and of min, by what the value is called."""
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    words = name.lower().split("_")
    if any(word in _HIGH for word in words):
        return 1.0, 0.5
    if any(word in _LOW for word in words):
        return 0.5, 1.0
    return 0.7, 0.65
