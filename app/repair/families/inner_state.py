"""What an inner function should start with anew, made once for all its calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import first_real, movable, moved, names_in, start_of, stored_in
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS


class InnerState(Family):
    name = "inner-state"
    prior = 0.6
    trust = 0.85
    fault = "shared between calls what each call should have for itself"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Assign) or not movable(view, node):
            return
        block, bound = view.source.block_of(node), stored_in(node)
        if block is None or not bound:
            return
        users = [each for each in block[block.index(node) + 1 :] if bound & names_in(each)]
        if len(users) != 1 or not isinstance(users[0], FUNCTIONS):
            return
        first = first_real(users[0])
        declared = any(isinstance(each, (ast.Nonlocal, ast.Global)) for each in ast.walk(users[0]))
        if declared or not view.source.alone_on_lines(first):
            return
        edits = moved(view, [node], start_of(view, first), view.source.indent(first))
        if edits is not None:
            yield Proposal(edits, f"makes {', '.join(sorted(bound))} anew in each call of {users[0].name}")
