"""Structures that are gone through one level deep only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView, is_method, parameters


class Recursion(Family):
    name = "recursion"
    prior = 0.6
    fault = "did not go on into what it found"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        loop = view.source.loop_of(node)
        function = view.source.function_of(node)
        if not isinstance(loop, ast.For) or function is None or not isinstance(loop.target, ast.Name):
            return
        name, method = loop.target.id, is_method(function, view.source)
        given = [each for each in parameters(function) if each not in ("self", "cls")]
        rest = ", ".join(given[1:] if not method else given)
        if method:
            again = f"{name}.{function.name}({rest})"
        else:
            again = f"{function.name}({', '.join(each for each in (name, rest) if each)})"
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Name) and node.value.id == name:
            yield Proposal(replace(view, node, f"yield from {again}"), f"goes on with {again}", 1.0)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            item = node.args[0]
            if isinstance(item, ast.Name) and item.id == name and node.func.attr in ("append", "add"):
                many = "extend" if node.func.attr == "append" else "update"
                text = f"{view.source.segment(node.func.value)}.{many}({again})"
                yield Proposal(replace(view, node, text), f"goes on with {again}", 0.8)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            inside = [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
            if inside == [name] or isinstance(node.value, ast.Constant):
                yield Proposal(replace(view, node.value, again), f"goes on with {again}", 0.6)
