"""Mutable defaults that calls share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import insert_before, replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS

_MUTABLE = ("[]", "{}", "set()", "dict()", "list()")


class SharedDefaults(Family):
    name = "shared-default"
    prior = 1.0
    fault = "shared one mutable default between calls"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, FUNCTIONS):
            return
        positional = [*node.args.posonlyargs, *node.args.args]
        pairs = list(
            zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True)
        )
        pairs += [
            (a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None
        ]
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
            first = node.body[1]
        for argument, default in pairs:
            text = view.source.segment(default)
            if text not in _MUTABLE:
                continue
            guard = insert_before(view, first, [f"if {argument.arg} is None:", f"\t{argument.arg} = {text}"])
            if guard is not None:
                edits = (*replace(view, default, "None"), *guard)
                yield Proposal(edits, f"makes a new {text} for every call", 1.0)
