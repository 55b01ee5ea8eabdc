"""Attributes: another one seen on the same object in the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView, is_method, parameters
from ..similarity import likeness
from ..source import Edit

_MOST = 16
_MOST_METHODS = 6


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
            if isinstance(node.value, ast.Name):
                owner = node.value.id
                weight *= view.fit(f"{owner}.{node.attr}", f"{owner}.{name}", node)
            if not weight:
                continue  # what it held while the tests ran cannot stand here
            if isinstance(node.ctx, ast.Store):
                weight *= 0.6
            edit = Edit(end - len(node.attr), end, name)
            yield Proposal((edit,), f"replaces .{node.attr} by .{name}", weight)
        if isinstance(node.ctx, ast.Load):
            yield from self._methods(node, view)

    def _methods(self, node: ast.Attribute, view: ModuleView) -> Iterator[Proposal]:
        """What a method without arguments gives, and the object itself."""
        _, end = view.source.span(node)
        owner = view.source.class_of(node) if ast.unparse(node.value) == "self" else None
        methods = [
            each
            for each in (view.methods(owner) if owner is not None else view.functions.values())
            if is_method(each, view.source) and len(parameters(each)) == 1 and not each.name.startswith("__")
        ]
        if view.functions.get(node.attr) is None:
            for each in methods[:_MOST_METHODS]:
                property_ = any("property" in ast.unparse(one) for one in each.decorator_list)
                text = each.name if property_ else f"{each.name}()"
                weight = 0.3 + 0.4 * likeness(node.attr, each.name)
                yield Proposal((Edit(end - len(node.attr), end, text),), f"takes .{text} instead", weight)
        parent = view.source.parents.get(node)
        if not isinstance(parent, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            base = view.source.segment(node.value)
            if not isinstance(node.value, ast.Name) or node.value.id not in view.module_names:
                yield Proposal(replace(view, node, base), f"takes {base} itself", 0.3)
