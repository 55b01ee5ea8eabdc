"""Variables: another name in scope, the more alike (in spelling or use) the likelier."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..similarity import likeness
from ..source import FUNCTIONS

_MOST_GLOBALS = 4


class Names(Family):
    name = "name"
    prior = 0.75
    fault = "used the wrong variable"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return  # callees have a family of their own
        if isinstance(parent, ast.Attribute) and node.id in ("self", "cls"):
            return
        if isinstance(parent, FUNCTIONS) or getattr(parent, "annotation", None) is node:
            return
        here = view.names_at(node)
        for name in here:
            if name != node.id and name not in ("self", "cls"):
                weight = 0.45 + 0.55 * likeness(node.id, name)
                yield Proposal(replace(view, node, name), f"replaces {node.id} by {name}", weight)
        others = [
            n for n in view.module_names if n not in here and n != node.id and n not in view.called_names
        ]
        others.sort(key=lambda name: (-likeness(node.id, name), name))
        for name in others[:_MOST_GLOBALS]:
            alike = likeness(node.id, name)
            if alike > 0.3:
                yield Proposal(replace(view, node, name), f"replaces {node.id} by {name}", 0.2 + 0.6 * alike)
        yield from self._members(node, view)

    def _members(self, node: ast.Name, view: ModuleView) -> Iterator[Proposal]:
        """A local that shadows the attribute of the same name."""
        owner = view.source.class_of(node)
        function = view.source.function_of(node)
        if owner is None or function is None or "self" not in view.local_names(function)[:1]:
            return
        if node.id in view.members(owner):
            yield Proposal(
                replace(view, node, f"self.{node.id}"), f"replaces {node.id} by self.{node.id}", 0.7
            )
