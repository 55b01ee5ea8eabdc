"""The step that undoes another: put in elsewhere and not taken out here, or the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..blocks import LEAVING, is_docstring
from ..edits import insert_after, insert_before
from ..facts import loaded_names, once, walk
from ..family import Family, Proposal
from ..scope import ModuleView, parameters
from ..source import Function

_OPPOSITES = {
    "append": ("remove",),
    "add": ("discard", "remove"),
    "insert": ("remove",),
    "remove": ("append", "add"),
    "discard": ("add",),
    "acquire": ("release",),
    "release": ("acquire",),
}
_MOST_VALUES = 3
_MOST_PLACES = 3


@dataclass(frozen=True)
class _Changes:
    """Which methods change which attributes or names anywhere in the file."""

    methods: dict[str, frozenset[str]]


class Complements(Family):
    name = "complement"
    prior = 0.6
    trust = 0.65
    fault = "left out the step that undoes another"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or is_docstring(node):
            return
        function = view.source.function_of(node)
        block = view.source.block_of(node)
        if function is None or block is None:
            return
        leaving = isinstance(node, LEAVING)
        if not leaving and node is not block[-1] and not isinstance(node, (ast.If, ast.For, ast.While)):
            return
        insert = insert_before if leaving else insert_after
        for line, weight in [*self._opposite(node, function, view), *self._cut_back(function, view)]:
            edits = insert(view, node, [line])
            if edits is not None:
                yield Proposal(edits, f"adds `{line}`", weight)

    def _opposite(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[tuple[str, float]]:
        changes = once(view, _changes, view.source.tree).methods
        own = {f"{place}.{method}" for place, method, _ in _calls(function, view)}
        names = view.names_at(node)
        values = [each for each in parameters(function) if each not in ("self", "cls") and each in names]
        for place in _read_places(function, view)[:_MOST_PLACES]:
            for done in sorted(changes.get(place.rpartition(".")[2], ())):
                for opposite in _OPPOSITES[done]:
                    if f"{place}.{opposite}" in own:
                        continue
                    if opposite in ("acquire", "release"):
                        yield f"{place}.{opposite}()", 0.7
                        continue
                    for rank, value in enumerate(values[:_MOST_VALUES]):
                        if value != place:
                            yield f"{place}.{opposite}({value})", 0.8 - 0.1 * rank

    def _cut_back(self, function: Function, view: ModuleView) -> Iterator[tuple[str, float]]:
        """A length noted beforehand that nothing uses: what was added since goes again."""
        for each in walk(view, function):
            if not isinstance(each, ast.Assign) or not isinstance(each.targets[0], ast.Name):
                continue
            name, value = each.targets[0].id, each.value
            counted = isinstance(value, ast.Call) and getattr(value.func, "id", "") == "len" and value.args
            if name in loaded_names(function, view):
                continue
            if counted and isinstance(value, ast.Call):
                yield f"del {ast.unparse(value.args[0])}[{name}:]", 1.0
            elif isinstance(value, ast.Attribute):
                yield f"{ast.unparse(value)} = {name}", 1.0


def _calls(tree: ast.AST, view: ModuleView) -> Iterator[tuple[str, str, ast.Call]]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            base = each.func.value
            if each.func.attr in _OPPOSITES and isinstance(base, (ast.Name, ast.Attribute)):
                yield ast.unparse(base), each.func.attr, each


def _changes(tree: ast.Module, view: ModuleView) -> _Changes:
    found: dict[str, set[str]] = {}
    for place, method, _ in _calls(tree, view):
        if "." in place:
            found.setdefault(place.rpartition(".")[2], set()).add(method)
    return _Changes({name: frozenset(methods) for name, methods in found.items()})


def _read_places(function: Function, view: ModuleView) -> list[str]:
    """Attributes that a function reads, as text, the more often read first."""
    counts: dict[str, int] = {}
    changes = once(view, _changes, view.source.tree).methods
    for each in walk(view, function):
        if isinstance(each, ast.Attribute) and each.attr in changes and isinstance(each.value, ast.Name):
            text = ast.unparse(each)
            counts[text] = counts.get(text, 0) + 1
    return sorted(counts, key=lambda text: (-counts[text], text))
