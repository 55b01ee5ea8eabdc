"""Attributes: another one seen on the same object in the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..family import Family, Proposal
from ..scope import ModuleView
from ..similarity import likeness
from ..source import Edit

_MOST = 16


class Attributes(Family):
    name = "attribute"
    prior = 0.75
    fault = "used the wrong attribute"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Attribute):
            return
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return  # callees have a family of their own
        _, end = view.source.span(node)
        options = [
            name
            for name in view.attributes_of(node.value)
            if name != node.attr and not name.startswith("__") and name not in view.called_attributes
        ]
        options.sort(key=lambda name: -likeness(node.attr, name))
        for name in options[:_MOST]:
            weight = 0.45 + 0.55 * likeness(node.attr, name)
            if isinstance(node.ctx, ast.Store):
                weight *= 0.6
            edit = Edit(end - len(node.attr), end, name)
            yield Proposal((edit,), f"replaces .{node.attr} by .{name}", weight)
