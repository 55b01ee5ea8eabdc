"""Dictionary access: defaults for absent keys, and defaults that hide them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

_DEFAULTS = ("0", "None", "[]", '""', "{}", "False")


class MappingAccess(Family):
    name = "mapping"
    prior = 0.7
    trust = 0.8
    harm = Harm.LOOSENS
    boosts = {"KeyError": 1.6, "TypeError": 1.1, "AttributeError": 1.1}  # noqa: RUF012
    fault = "looked a key up in the wrong way"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from self._lookup(node, view)
        elif isinstance(node, ast.Call):
            yield from self._call(node, view)
        elif isinstance(node, ast.Delete) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
                text = f"{view.source.segment(target.value)}.pop({view.source.segment(target.slice)}, None)"
                yield Proposal(replace(view, node, text), "tolerates an absent key", 0.8)
        elif isinstance(node, ast.Assign) and len(node.targets) == 2:
            name, target = node.targets
            if isinstance(name, ast.Name) and isinstance(target, ast.Subscript):
                base, key = view.source.segment(target.value), view.source.segment(target.slice)
                text = f"{name.id} = {base}.setdefault({key}, {view.source.segment(node.value)})"
                yield Proposal(replace(view, node, text), "keeps a value that is already there", 0.9)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Constant)):
                base, key = view.source.segment(target.value), view.source.segment(target.slice)
                text = f"{base}.setdefault({key}, {view.source.segment(node.value)})"
                yield Proposal(replace(view, node, text), "keeps a value that is already there", 0.4)
                if view.source.loop_of(node) is not None:
                    yield from self._accumulated(node, base, key, view)

    def _accumulated(self, node: ast.Assign, base: str, key: str, view: ModuleView) -> Iterator[Proposal]:
        """A value that replaces the earlier ones of its key where all count."""
        value = view.source.segment(node.value)
        if "\n" in value:
            return
        added = f"{base}[{key}] = {base}.get({key}, 0) + {enclosed(view, node.value)}"
        alone = isinstance(node.value, ast.List) and len(node.value.elts) == 1
        item = (
            view.source.segment(node.value.elts[0]) if isinstance(node.value, ast.List) and alone else value
        )
        gathered = f"{base}.setdefault({key}, []).append({item})"
        for text, weight in (
            (added, 0.6),
            (f"{base}[{key}] += {value}", 0.5),
            (gathered, 0.9 if alone else 0.5),
        ):
            yield Proposal(
                replace(view, node, text), "adds to what the key has already", weight, Harm.PRECISE
            )

    def _lookup(self, node: ast.Subscript, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node.slice, (ast.Slice, ast.Tuple, ast.UnaryOp)):
            return
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return
        base, key = view.source.segment(node.value), view.source.segment(node.slice)
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            return
        if isinstance(parent, ast.Attribute) and parent.attr in ("append", "extend", "add", "update"):
            for value in ("[]", "set()", "{}"):
                text = f"{base}.setdefault({key}, {value})"
                yield Proposal(replace(view, node, text), f"starts absent keys with {value}", 1.0)
        for rank, value in enumerate(_DEFAULTS):
            text = f"{base}.get({key})" if value == "None" else f"{base}.get({key}, {value})"
            yield Proposal(replace(view, node, text), f"uses {value} for an absent key", 1.0 - 0.08 * rank)
        if not isinstance(parent, ast.Attribute):
            text = f"{base}.pop({key})"
            yield Proposal(replace(view, node, text), "takes the entry out", 0.4, Harm.PRECISE)
        if isinstance(node.slice, (ast.Name, ast.Attribute)):
            text = f"{base}.get({key}, {key})"
            yield Proposal(replace(view, node, text), f"uses {key} itself for an absent key", 0.5)

    def _call(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        _, end = view.source.span(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if node.keywords or not node.args:
            return
        full = {"get": 2, "pop": 2, "getattr": 3, "next": 2}.get(name)
        if full is None or (name in ("getattr", "next")) != isinstance(node.func, ast.Name):
            return
        if len(node.args) == full - 1:
            for rank, value in enumerate(_DEFAULTS):
                if value != "None" or name != "get":
                    edit = Edit(end - 1, end - 1, f", {value}")
                    yield Proposal((edit,), f"uses {value} when there is none", 0.9 - 0.08 * rank)
        if name == "get" and isinstance(node.func, ast.Attribute):
            base, key = view.source.segment(node.func.value), view.source.segment(node.args[0])
            yield Proposal(replace(view, node, f"{base}[{key}]"), "insists on the key", 0.5, Harm.PRECISE)
