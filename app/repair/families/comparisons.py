"""Comparison operators: boundaries, direction, membership and swapped operands."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace_operator
from ..family import Family, Proposal
from ..scope import ModuleView

_TEXT: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_LIKELY = {
    "<": ("<=", ">", ">=", "!="),
    "<=": ("<", ">=", ">", "=="),
    ">": (">=", "<", "<=", "!="),
    ">=": (">", "<=", "<", "=="),
    "==": ("!=", ">=", "<=", "in"),
    "!=": ("==", "<", ">", "not in"),
    "in": ("not in", "=="),
    "not in": ("in",),
}
_WEIGHTS = (1.0, 0.9, 0.6, 0.4)


class Comparison(Family):
    name = "comparison"
    prior = 1.0
    fault = "compared with the wrong operator"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Compare):
            return
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old = _TEXT.get(type(operator))
            for weight, new in zip(_WEIGHTS, _LIKELY[old] if old else (), strict=False):
                edits = replace_operator(view, left, right, new)
                if edits is not None:
                    yield Proposal(edits, f"replaces {old} by {new}", weight)
            left = right
