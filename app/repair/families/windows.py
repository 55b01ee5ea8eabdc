"""A sum or count over the last few items that only ever grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import insert_after, insert_before
from ..facts import walk
from ..family import Family, Proposal
from ..scope import ModuleView, parameters

_SIZES = ("size", "width", "window", "count", "length", "span", "n", "k", "days", "period", "most")
_MOST_NAMES = 2


class Windows(Family):
    name = "window"
    prior = 0.55
    trust = 0.85
    fault = "never let go of what leaves its window"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, (ast.Add, ast.Sub)):
            return
        loop, function = view.source.loop_of(node), view.source.function_of(node)
        if not isinstance(loop, ast.For) or function is None or not isinstance(node.target, ast.Name):
            return
        walked = _walked(loop)
        if walked is None:
            return
        index, items, item = walked
        total, value = node.target.id, view.source.segment(node.value)
        leaves = "-" if isinstance(node.op, ast.Add) else "+"
        if item is not None and item not in {
            each.id for each in ast.walk(node) if isinstance(each, ast.Name)
        }:
            return
        lost = value if item is None else value.replace(item, f"{items}[{index} - SIZE]")
        if item is None:
            lost = value.replace(f"{items}[{index}]", f"{items}[{index} - SIZE]")
        if "SIZE" not in lost:
            return
        names = [each for each in parameters(function) if each not in (items, "self")]
        compared = {
            each.id for each in walk(view, function) if isinstance(each, ast.Name) and each.id in names
        }
        likely = [each for each in names if each.lower().split("_")[-1] in _SIZES and each in compared]
        for rank, size in enumerate((likely or [each for each in names if each in compared])[:_MOST_NAMES]):
            lines = [f"if {index} >= {size}:", f"\t{total} {leaves}= {lost.replace('SIZE', size)}"]
            for place, weight in ((insert_after, 1.0), (insert_before, 0.8)):
                edits = place(view, node, lines)
                if edits is not None:
                    yield Proposal(edits, f"takes out what leaves the last {size}", weight - 0.2 * rank)


def _walked(loop: ast.For) -> tuple[str, str, str | None] | None:
    """(index, sequence, item) of ``for i, x in enumerate(xs)`` or ``for i in range(len(xs))``."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or len(call.args) != 1:
        return None
    target, given = loop.target, call.args[0]
    if call.func.id == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        index, item = target.elts
        if (
            isinstance(index, ast.Name)
            and isinstance(item, ast.Name)
            and isinstance(given, (ast.Name, ast.Attribute))
        ):
            return index.id, ast.unparse(given), item.id
    length = given if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) else None
    if call.func.id != "range" or not isinstance(target, ast.Name) or length is None:
        return None
    counted = ast.unparse(length.func) == "len" and len(length.args) == 1
    return (target.id, ast.unparse(length.args[0]), None) if counted else None
