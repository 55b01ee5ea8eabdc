"""Floating-point numbers compared exactly, or compared with a difference that has a sign."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Proposal
from ..scope import ModuleView

_MARGINS = ("tolerance", "tol", "eps", "epsilon", "precision", "delta", "margin")
_MOST_MARGINS = 3


class Tolerance(Family):
    name = "tolerance"
    prior = 0.55
    fault = "compared rounded numbers exactly"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return
        left, right, operator = node.left, node.comparators[0], node.ops[0]
        if not _may_be_number(left) or not _may_be_number(right):
            return
        one, two = enclosed(view, left), enclosed(view, right)
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            yield from self._equal(node, one, two, view, wanted=isinstance(operator, ast.Eq))
        elif isinstance(operator, (ast.Lt, ast.LtE)):
            text = f"{view.source.segment(left)} - 1e-9 {'<' if isinstance(operator, ast.Lt) else '<='} {two}"
            yield Proposal(replace(view, node, text), "allows for rounding", 0.2)
        elif isinstance(operator, (ast.Gt, ast.GtE)):
            text = f"{view.source.segment(left)} + 1e-9 {'>' if isinstance(operator, ast.Gt) else '>='} {two}"
            yield Proposal(replace(view, node, text), "allows for rounding", 0.2)

    def _equal(
        self, node: ast.Compare, one: str, two: str, view: ModuleView, *, wanted: bool
    ) -> Iterator[Proposal]:
        margins = [
            name
            for name in (*view.names_at(node), *view.module_names)
            if any(word in name.lower().split("_") for word in _MARGINS)
        ][:_MOST_MARGINS]
        imported = _imports_math(view)
        more = "<=" if wanted else ">"
        weight = 1.0 if margins else _weight(node)
        for name in margins:
            if imported:
                text = f"{'' if wanted else 'not '}math.isclose({one}, {two}, abs_tol={name})"
                yield Proposal(replace(view, node, text), f"allows a difference of {name}", weight)
            text = f"abs({one} - {two}) {more} {name}"
            yield Proposal(replace(view, node, text), f"allows a difference of {name}", 0.95 * weight)
        if imported:
            text = f"{'' if wanted else 'not '}math.isclose({one}, {two})"
            yield Proposal(replace(view, node, text), "compares with math.isclose", 0.9 * weight)
        text = f"abs({one} - {two}) {'<' if wanted else '>='} 1e-9"
        yield Proposal(replace(view, node, text), "allows for rounding", 0.8 * weight)


def _may_be_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    return isinstance(node, (ast.Name, ast.Attribute, ast.BinOp, ast.Subscript, ast.UnaryOp, ast.Call))


def _weight(node: ast.Compare) -> float:
    """Numbers that were divided, or are written with a point, are rounded ones."""
    for each in ast.walk(node):
        if isinstance(each, ast.BinOp) and isinstance(each.op, (ast.Div, ast.Mult, ast.Sub, ast.Pow)):
            return 0.7
        if isinstance(each, ast.Constant) and isinstance(each.value, float):
            return 0.8
    return 0.25


def _imports_math(view: ModuleView) -> bool:
    return "math" in view.module_names
