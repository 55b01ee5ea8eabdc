"""True and integer division: ``a / b`` becomes ``a // b`` and back; rounding up or to the nearest."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace, replace_operator
from ..family import Family, Proposal
from ..scope import ModuleView

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


class Division(Family):
    name = "division"
    prior = 0.95
    fault = "divided in the wrong way"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.FloorDiv)):
            return
        summed = node.left
        of_sum = isinstance(summed, ast.Call) and getattr(summed.func, "id", "") == "sum"
        for each in summed.args[:1] if isinstance(summed, ast.Call) and of_sum else ():
            if isinstance(each, (ast.Name, ast.Attribute)):
                text = f"len({view.source.segment(each)})"
                yield Proposal(replace(view, node.right, text), f"divides by {text}", 0.9)
        old, new = ("/", "//") if isinstance(node.op, ast.Div) else ("//", "/")
        edits = replace_operator(view, node.left, node.right, new)
        if edits is not None:
            yield Proposal(edits, f"replaces {old} by {new}")
        if old == "//":
            text = f"-(-{enclosed(view, node.left)} // {enclosed(view, node.right)})"
            yield Proposal(replace(view, node, text), "rounds the quotient up instead of down", 0.4)
            text = (
                f"({_summand(node.left, view)} + {_half(node.right, view)}) // {enclosed(view, node.right)}"
            )
            yield Proposal(replace(view, node, text), "rounds the quotient to the nearest", 0.4)


def _summand(node: ast.expr, view: ModuleView) -> str:
    text = view.source.segment(node)
    binds = isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC)
    return text if binds and "\n" not in text else enclosed(view, node)


def _half(divisor: ast.expr, view: ModuleView) -> str:
    if isinstance(divisor, ast.Constant) and type(divisor.value) is int:
        return str(divisor.value // 2)
    return f"{enclosed(view, divisor)} // 2"
