"""Comparison operators: boundaries, direction, membership and swapped operands."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace, replace_operator
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

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
        if len(node.ops) == 1:
            yield from self._single(node, view)
        else:
            yield from self._links(node, view)

    def _single(self, node: ast.Compare, view: ModuleView) -> Iterator[Proposal]:
        """Operands swapped, one bound turned into two, one alternative into several."""
        left, right = node.left, node.comparators[0]
        one, two = view.source.segment(left), view.source.segment(right)
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and not isinstance(left, ast.Constant):
            whole = isinstance(right, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
            if whole:
                edits = replace(view, left, two) + replace(view, right, one)
                yield Proposal(edits, "looks for the second in the first", 0.6)
        start, _ = view.source.span(node)
        if isinstance(node.ops[0], (ast.Lt, ast.LtE)) and not isinstance(left, ast.Constant):
            yield Proposal((Edit(start, start, "0 <= "),), "also asks for at least 0", 0.55)
            yield Proposal((Edit(start, start, "0 < "),), "also asks for more than 0", 0.4)
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.BoolOp) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            yield from self._alternatives(node, parent, one, two, view)

    def _alternatives(
        self, node: ast.Compare, parent: ast.BoolOp, one: str, two: str, view: ModuleView
    ) -> Iterator[Proposal]:
        """``a == 1 or 2``, which is always true."""
        position = parent.values.index(node)
        rest = parent.values[position + 1 :]
        if not rest or not all(isinstance(each, ast.Constant) for each in rest):
            return
        options = ", ".join([two, *(view.source.segment(each) for each in rest)])
        word = "in" if isinstance(node.ops[0], ast.Eq) else "not in"
        span = (view.source.span(node)[0], view.source.span(rest[-1])[1])
        yield Proposal((Edit(*span, f"{one} {word} ({options})"),), "compares with each of them", 1.0)

    def _links(self, node: ast.Compare, view: ModuleView) -> Iterator[Proposal]:
        """A chain of comparisons without its first or its last one, or turned."""
        operands = [node.left, *node.comparators]
        start, end = view.source.span(node)
        first = (Edit(start, view.source.span(operands[1])[0], ""),)
        yield Proposal(first, "drops the first comparison", 0.5, Harm.REMOVES)
        last = (Edit(view.source.span(operands[-2])[1], end, ""),)
        yield Proposal(last, "drops the last comparison", 0.5, Harm.REMOVES)
        if len(operands) == 3:
            one, two = view.source.segment(operands[0]), view.source.segment(operands[2])
            edits = replace(view, operands[0], two) + replace(view, operands[2], one)
            yield Proposal(edits, "swaps the bounds", 0.7)
