"""Jumps: break against continue, a missing one, pass where a jump belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import insert_after, replace
from ..facts import own_returns
from ..family import Family, Proposal
from ..scope import ModuleView


class Jumps(Family):
    name = "jump"
    prior = 0.75
    trust = 0.8
    fault = "left a loop or a block in the wrong way"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        looping = view.source.loop_of(node) is not None
        if isinstance(node, ast.Break):
            yield Proposal(replace(view, node, "continue"), "replaces break by continue")
            yield Proposal(replace(view, node, "return"), "replaces break by return", 0.4)
        elif isinstance(node, ast.Continue):
            yield Proposal(replace(view, node, "break"), "replaces continue by break")
        elif isinstance(node, ast.Pass):
            for word in ("continue", "break") if looping else ():
                yield Proposal(replace(view, node, word), f"replaces pass by {word}", 0.9)
            if view.source.function_of(node) is not None:
                yield Proposal(replace(view, node, "return"), "replaces pass by return", 0.6)
        elif isinstance(node, ast.Return) and looping:
            yield Proposal(replace(view, node, "continue"), "continues instead of returning", 0.4)
        elif isinstance(node, ast.stmt) and not isinstance(node, ast.Raise):
            yield from self._missing(node, view, looping=looping)

    def _missing(self, node: ast.stmt, view: ModuleView, *, looping: bool) -> Iterator[Proposal]:
        parent = view.source.parents.get(node)
        block = view.source.block_of(node)
        if block is None or block[-1] is not node or not isinstance(parent, (ast.If, ast.ExceptHandler)):
            return
        for word, weight in (("break", 0.7), ("continue", 0.7)) if looping else ():
            edits = insert_after(view, node, [word])
            if edits is not None:
                yield Proposal(edits, f"adds the missing {word}", weight)
        function = view.source.function_of(node)
        bare = function is not None and all(each.value is None for each in own_returns(function, view))
        edits = insert_after(view, node, ["return"]) if bare else None
        if edits is not None:
            yield Proposal(edits, "adds the missing return", 0.6)
