"""Whether a key is there, asked by its value: what holds None, 0 or "" counts as absent."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView


class Membership(Family):
    name = "membership"
    prior = 0.7
    fault = "asked for the value where the key decides"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._compared(node, view)
        for asked in _truth_values(node):
            negated = isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not)
            found = _looked_up(asked.operand if isinstance(asked, ast.UnaryOp) else asked, view)
            if found is not None and view.source.editable(asked):
                key, base = found
                word = "not in" if negated else "in"
                yield Proposal(
                    replace(view, asked, f"{key} {word} {base}"), f"asks whether {key} is {word} {base}"
                )

    def _compared(self, node: ast.Compare, view: ModuleView) -> Iterator[Proposal]:
        operator, right = node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            found = _looked_up(node.left, view)
            if found is not None and isinstance(right, ast.Constant) and right.value is None:
                key, base = found
                word = "not in" if isinstance(operator, (ast.Is, ast.Eq)) else "in"
                yield Proposal(
                    replace(view, node, f"{key} {word} {base}"), f"asks whether {key} is {word} {base}"
                )
        elif isinstance(operator, (ast.In, ast.NotIn)) and isinstance(right, (ast.Name, ast.Attribute)):
            key, base = view.source.segment(node.left), view.source.segment(right)
            if "\n" in key or isinstance(node.left, ast.Tuple):
                return
            absent = isinstance(operator, ast.NotIn)
            value = f"{base}.get({key})"
            forms = (f"not {value}", f"{value} is None") if absent else (value, f"{value} is not None")
            for rank, text in enumerate(forms):
                yield Proposal(
                    replace(view, node, text), f"asks for the value of {key} as well", 0.45 - 0.1 * rank
                )


def _truth_values(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions of which only the truth counts."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        yield node.test
    elif isinstance(node, ast.comprehension):
        yield from node.ifs
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        # The value of an `or` is often wanted itself.
        yield from node.values


def _looked_up(node: ast.expr, view: ModuleView) -> tuple[str, str] | None:
    """(key, mapping) of ``mapping.get(key)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "get" or len(node.args) != 1 or node.keywords:
        return None
    key, base = view.source.segment(node.args[0]), view.source.segment(node.func.value)
    return None if "\n" in key + base or isinstance(node.args[0], ast.Starred) else (key, base)
