"""Off by one at indexes, slices and ranges, and where one is added or subtracted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit


class Bounds(Family):
    name = "bound"
    prior = 0.95
    fault = "was off by one at a bound"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Subscript):
            yield from self._subscript(node, view)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from self._range(node, view)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            if _is_one(node.right):
                yield Proposal(
                    replace(view, node, view.source.segment(node.left)), "drops the offset of one", 0.9
                )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            yield from _shifted(node, view, 0.5)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                yield from _shifted(node.comparators[0], view, 0.4)
        elif isinstance(node, (ast.Return, ast.Assign)):
            if isinstance(node.value, (ast.Name, ast.Attribute, ast.BinOp)):
                yield from _shifted(node.value, view, 0.35)
        elif isinstance(node, ast.Call):
            for argument in node.args:
                if isinstance(argument, ast.Name):
                    yield from _shifted(argument, view, 0.25)

    def _subscript(self, node: ast.Subscript, view: ModuleView) -> Iterator[Proposal]:
        index = node.slice
        if isinstance(index, ast.Slice):
            yield from self._slice(index, view)
        elif not isinstance(index, (ast.Tuple, ast.Constant)) and isinstance(node.ctx, (ast.Load, ast.Store)):
            yield from _shifted(index, view, 0.8)
        elif isinstance(index, ast.Constant) and index.value == 0:
            yield Proposal(replace(view, index, "-1"), "takes the last item instead of the first", 0.8)
        if (
            isinstance(index, ast.UnaryOp)
            and isinstance(index.operand, ast.Constant)
            and index.operand.value == 1
        ):
            yield Proposal(replace(view, index, "0"), "takes the first item instead of the last", 0.8)

    def _slice(self, node: ast.Slice, view: ModuleView) -> Iterator[Proposal]:
        for name, bound in (("lower", node.lower), ("upper", node.upper)):
            if bound is None:
                continue
            yield from _shifted(bound, view, 0.9)
            yield Proposal(replace(view, bound, ""), f"drops the {name} bound", 0.5)
        start, end = view.source.span(node)
        if node.upper is None and node.step is None:
            yield Proposal((Edit(end, end, "-1"),), "leaves the last item out", 0.5)
        if node.lower is None:
            yield Proposal((Edit(start, start, "1"),), "leaves the first item out", 0.5)
        if node.step is not None:
            yield Proposal(
                replace(view, node.step, f"-{enclosed(view, node.step)}"), "goes the other way", 0.4
            )
        elif node.lower is None and node.upper is None:
            yield Proposal((Edit(end, end, ":-1"),), "goes the other way", 0.4)

    def _range(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if not node.args or node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            return
        stop = node.args[0] if len(node.args) == 1 else node.args[1]
        yield from _shifted(stop, view, 1.0)
        if len(node.args) == 1:
            text = view.source.segment(stop)
            yield Proposal(replace(view, stop, f"1, {text}"), "starts the range at 1", 0.7)
            yield Proposal(
                replace(view, stop, f"1, {enclosed(view, stop)} + 1"), "ranges from 1 to the end", 0.6
            )
        else:
            first = node.args[0]
            yield from _shifted(first, view, 0.8)
            if not (isinstance(first, ast.Constant) and first.value == 0):
                yield Proposal(replace(view, first, "0"), "starts the range at 0", 0.6)


def _shifted(node: ast.expr, view: ModuleView, weight: float) -> Iterator[Proposal]:
    """The expression plus and minus one; numerals are left to the family of constants."""
    if isinstance(node, (ast.JoinedStr, ast.Constant)) or not view.source.editable(node):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return
    if isinstance(node, ast.BinOp) and _is_one(node.right):
        return
    text = view.source.segment(node) if isinstance(node, ast.BinOp) and _sum(node) else enclosed(view, node)
    yield Proposal(replace(view, node, f"{text} + 1"), "adds one", weight)
    yield Proposal(replace(view, node, f"{text} - 1"), "subtracts one", weight)


def _sum(node: ast.BinOp) -> bool:
    return isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod))


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1
