"""Variables: another name in scope, the more alike (in spelling or use) the likelier."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..similarity import likeness
from ..source import FUNCTIONS

_MOST_GLOBALS = 4
_MOST_PARTS = 5
_MOST_EXCHANGED = 4
_FORGOTTEN = 0.9
"""Weight at least, for what the function never reads."""


class Names(Family):
    name = "name"
    prior = 0.75
    trust = 0.85
    fault = "used the wrong variable"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield from self._exchanged(node, view)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from self._unindexed(node, view)
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return  # callees have a family of their own
        if isinstance(parent, ast.Attribute) and node.id in ("self", "cls"):
            yield from self._of_another(node, parent, view)
            return
        if isinstance(parent, FUNCTIONS) or getattr(parent, "annotation", None) is node:
            return
        here = view.names_at(node)
        for name in here:
            if name != node.id and name not in ("self", "cls"):
                weight = (0.38 + 0.62 * likeness(node.id, name)) * view.fit(node.id, name, node)
                if not weight:
                    continue  # what it held while the tests ran cannot stand here
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
        yield from self._parts(node, view)
        yield from self._items(node, view)

    def _of_another(self, node: ast.Name, parent: ast.Attribute, view: ModuleView) -> Iterator[Proposal]:
        """The same attribute of another object: one that has it, or one that is used like this one."""
        own = set(view.attributes_of(node))
        for name in view.names_at(node):
            if name in ("self", "cls"):
                continue
            theirs = view.attributes_of(ast.Name(name))
            weight = 0.6 if parent.attr in theirs else 0.45 if own.intersection(theirs) else 0.0
            weight *= view.fit(node.id, name, node)
            if weight:
                text = f"replaces {node.id}.{parent.attr} by {name}.{parent.attr}"
                yield Proposal(replace(view, node, name), text, weight)

    def _exchanged(self, node: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """Two variables exchanged throughout a statement."""
        local = set(view.names_at(node)) - {"self", "cls"}
        places: dict[str, list[ast.Name]] = {}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and each.id in local and isinstance(each.ctx, ast.Load):
                if not view.source.editable(each):
                    return
                places.setdefault(each.id, []).append(each)
        if not 2 <= len(places) <= _MOST_EXCHANGED:
            return
        for one, two in itertools.combinations(places, 2):
            edits = [edit for each in places[one] for edit in replace(view, each, two)]
            edits += [edit for each in places[two] for edit in replace(view, each, one)]
            weight = 0.4 + 0.3 * likeness(one, two)
            yield Proposal(tuple(sorted(edits)), f"exchanges {one} and {two}", weight)

    def _unindexed(self, node: ast.Subscript, view: ModuleView) -> Iterator[Proposal]:
        """The index, or the whole, instead of the item."""
        if isinstance(node.slice, ast.Name):
            text = node.slice.id
            yield Proposal(replace(view, node, text), f"takes {text} instead of the item", 0.3)
        base = view.source.segment(node.value)
        if not isinstance(node.slice, ast.Slice):
            yield Proposal(replace(view, node, base), f"takes {base} as a whole", 0.3)

    def _items(self, node: ast.Name, view: ModuleView) -> Iterator[Proposal]:
        """What is looked up by this name elsewhere in the function, or by another name in this object."""
        function = view.source.function_of(node)
        if function is None:
            return
        lookups = view.remembered_of(function, _lookups)
        for base, keys in lookups.items():
            if node.id in keys and base != node.id:
                text = f"{base}[{node.id}]"
                yield Proposal(replace(view, node, text), f"takes {text} instead of {node.id}", 0.55)
            elif base == node.id:
                for key in keys:
                    text = f"{base}[{key}]"
                    if key in view.names_at(node):
                        yield Proposal(replace(view, node, text), f"takes {text} instead of {node.id}", 0.5)

    def _parts(self, node: ast.Name, view: ModuleView) -> Iterator[Proposal]:
        """An attribute of the object, or an item of the pair, instead of the whole."""
        parent = view.source.parents.get(node)
        if isinstance(parent, (ast.Attribute, ast.Subscript, ast.Starred)) or node.id in view.called_names:
            return
        if node.id in view.module_names and node.id not in view.names_at(node):
            return
        attributes = view.attributes_of(node)
        plain = [name for name in attributes if name not in view.called_attributes]
        for rank, name in enumerate(plain[:_MOST_PARTS]):
            text = f"{node.id}.{name}"
            yield Proposal(
                replace(view, node, text), f"takes {text} instead of {node.id}", 0.55 - 0.05 * rank
            )
        if node.id in view.remembered("indexed", _indexed) or isinstance(parent, (ast.Return, ast.Lambda)):
            for index in (0, 1, -1):
                text = f"{node.id}[{index}]"
                yield Proposal(replace(view, node, text), f"takes {text} instead of {node.id}", 0.3)

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


def _indexed(view: ModuleView) -> frozenset[str]:
    """Variables that are subscripted with numbers or variables somewhere."""
    return frozenset(
        node.value.id
        for node in ast.walk(view.source.tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and _small(node.slice)
    )


def _lookups(function: ast.AST) -> dict[str, dict[str, None]]:
    """Text of an object -> variables it is subscripted with in the function."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
            continue
        if isinstance(node.value, (ast.Name, ast.Attribute)):
            found.setdefault(ast.unparse(node.value), {})[node.slice.id] = None
    return found


def _small(index: ast.expr) -> bool:
    number = isinstance(index, ast.Constant) and type(index.value) is int
    return number or isinstance(index, (ast.Name, ast.BinOp))
