"""True and integer division: ``a / b`` becomes ``a // b`` and back; rounding up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace, replace_operator
from ..family import Family, Proposal
from ..scope import ModuleView


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
