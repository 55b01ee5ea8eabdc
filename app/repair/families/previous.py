"""What a loop compares or combines each item with, and never moves on: the one before."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import LEAVING, stored_in
from ..edits import insert_after, insert_before
from ..facts import walk
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import LOOPS, Function

_SPEAKING = ("last", "prev", "previous", "old", "before", "earlier", "prior", "current", "position", "start")
_STARTS = (ast.Constant, ast.UnaryOp, ast.Subscript, ast.Name, ast.Attribute, ast.Call)
_PARTNERS = (ast.Name, ast.Attribute, ast.Subscript)
_MOST_PARTNERS = 3


class PreviousItems(Family):
    name = "previous"
    prior = 0.65
    trust = 0.8
    fault = "never moved on what it compares with"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, LOOPS):
            return
        function = view.source.function_of(node)
        if function is None:
            return
        stored = stored_in(node)
        for name, likely in _set_before(node, function, view):
            if name in stored:
                continue
            for rank, (partner, at) in enumerate(_partners(name, node, view)[:_MOST_PARTNERS]):
                weight = likely * (1.0 - 0.15 * rank)
                line = f"{name} = {partner}"
                last = node.body[-1]
                end = insert_before(view, last, [line]) if isinstance(last, LEAVING) else None
                end = end or insert_after(view, last, [line])
                if end is not None:
                    yield Proposal(end, f"adds `{line}` to each round", weight)
                block = view.source.block_of(at)
                if (
                    block is not None
                    and not isinstance(at, (LEAVING, ast.If, *LOOPS))
                    and block[-1] is not last
                ):
                    near = insert_after(view, at, [line])
                    if near is not None:
                        yield Proposal(near, f"adds `{line}` after its use", weight * 0.85)


def _set_before(loop: ast.stmt, function: Function, view: ModuleView) -> Iterator[tuple[str, float]]:
    """Names with one plain value from before the loop, and how much they sound like what goes before."""
    for each in walk(view, function):
        if not isinstance(each, ast.Assign) or len(each.targets) != 1 or each.lineno >= loop.lineno:
            continue
        target = each.targets[0]
        if isinstance(target, ast.Name) and isinstance(each.value, _STARTS):
            speaking = any(part in _SPEAKING for part in target.id.lower().split("_"))
            yield target.id, 1.0 if speaking else 0.4


def _partners(name: str, loop: ast.stmt, view: ModuleView) -> list[tuple[str, ast.stmt]]:
    """What stands beside the name in an operation or comparison of the loop, with the statement around it."""
    found: dict[str, ast.stmt] = {}
    for node in walk(view, loop):
        sides: tuple[ast.expr, ...] = ()
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
        elif isinstance(node, (ast.Call, ast.Tuple)):
            sides = tuple(node.args if isinstance(node, ast.Call) else node.elts)
        if not any(isinstance(each, ast.Name) and each.id == name for each in sides):
            continue
        statement = view.source.statement_of(node)
        for each in sides:
            text = view.source.segment(each)
            if isinstance(each, _PARTNERS) and text != name and "\n" not in text and statement is not None:
                found.setdefault(text, statement)
    return list(found.items())
