"""Ordered dictionaries whose entries should move to an end when they are used, or leave from the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import LEAVING
from ..edits import insert_after, insert_before
from ..facts import once
from ..family import Family, Proposal
from ..scope import ModuleView

_USES = ("get", "setdefault")


class Recency(Family):
    name = "recency"
    prior = 0.6
    trust = 0.85
    fault = "did not keep its entries in the order of use"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, (ast.Assign, ast.Expr, ast.Return, ast.AugAssign)):
            return
        ordered = once(view, _ordered, view.source.tree)
        for base, key in dict.fromkeys(_entries(node, view)):
            if base not in ordered:
                continue
            line = f"{base}.move_to_end({key})"
            edits = insert_before(view, node, [line]) if isinstance(node, LEAVING) else None
            edits = edits or insert_after(view, node, [line])
            if edits is not None:
                yield Proposal(edits, f"adds `{line}`", 1.0)


def _ordered(tree: ast.Module, view: ModuleView) -> frozenset[str]:
    """Names and attributes that hold an OrderedDict."""
    found: set[str] = set()
    for node in ast.walk(tree):
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Call) and getattr(value.func, "attr", getattr(value.func, "id", "")) == (
            "OrderedDict"
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[union-attr]
            found.update(ast.unparse(each) for each in targets)
    return frozenset(found)


def _entries(node: ast.stmt, view: ModuleView) -> Iterator[tuple[str, str]]:
    """(mapping, key) of the entries that a statement reads or writes."""
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript) and not isinstance(each.slice, (ast.Slice, ast.Constant)):
            yield ast.unparse(each.value), view.source.segment(each.slice)
        elif isinstance(each, ast.Call) and each.args:
            called = each.func
            if isinstance(called, ast.Attribute) and called.attr in _USES:
                yield ast.unparse(called.value), view.source.segment(each.args[0])
