"""Parentheses of calls: a method that was not called, a property that was, a forgotten ``await``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Edit

_METHODS = frozenset(
    """
    lower upper strip split keys values items copy title capitalize isoformat casefold splitlines isdigit
    weekday isoweekday date time total_seconds timestamp today now read pop popleft clear sort reverse
    isalpha close exists group groups start end span hexdigest digest is_file is_dir conjugate
    """.split()  # noqa: SIM905
)
_VALUES = frozenset(
    """
    year month day hour minute second days seconds microseconds name stem suffix parent parts real imag
    numerator denominator args shape maxlen
    """.split()  # noqa: SIM905
)


class Access(Family):
    name = "access"
    prior = 0.75
    fault = "called what is a value or left a call out"
    boosts = {"TypeError": 1.4, "AttributeError": 1.2}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call):
            yield from self._not_called(node, view)
            yield from self._awaited(node, view)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from self._called(node, node.attr, view)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from self._called(node, node.id, view)
        elif isinstance(node, ast.Await):
            start, _ = view.source.span(node)
            inner, _ = view.source.span(node.value)
            yield Proposal((Edit(start, inner, ""),), "does not wait", 0.5)

    def _not_called(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if node.args or node.keywords or not isinstance(node.func, (ast.Attribute, ast.Name)):
            return
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        properties = view.remembered("properties", _properties)
        weight = 0.12
        if name in properties or name in _VALUES:
            weight = 1.0
        elif name in view.functions or name in _METHODS:
            weight = 0.25
        elif "TypeError" in view.evidence.raised:
            weight = 0.6
        end = view.source.span(node)[1]
        start = view.source.span(node.func)[1]
        shown = view.source.segment(node.func)
        yield Proposal((Edit(start, end, ""),), f"takes {shown} without calling it", weight)

    def _called(self, node: ast.Attribute | ast.Name, name: str, view: ModuleView) -> Iterator[Proposal]:
        parent = view.source.parents.get(node)
        if isinstance(parent, (ast.Call, ast.Attribute)) and getattr(parent, "func", parent) is node:
            return
        if isinstance(parent, ast.Attribute) and name not in _METHODS and name not in view.functions:
            return
        if isinstance(parent, FUNCTIONS) or (isinstance(parent, ast.Call) and isinstance(node, ast.Name)):
            return  # a decorator, or a function handed over
        end = view.source.span(node)[1]
        known = view.functions.get(name)
        if known is not None and name not in view.remembered("properties", _properties):
            plain = isinstance(node, ast.Attribute) or name in view.module_functions
            weight = 0.9 if plain else 0.3
        elif isinstance(node, ast.Attribute) and name in _METHODS:
            weight = 0.7
        elif isinstance(node, ast.Attribute) and name in view.called_attributes:
            weight = 0.6
        else:
            return
        yield Proposal((Edit(end, end, "()"),), f"calls {name}", weight)

    def _awaited(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        function = view.source.function_of(node)
        parent = view.source.parents.get(node)
        if not isinstance(function, ast.AsyncFunctionDef) or isinstance(parent, ast.Await):
            return
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        known = isinstance(view.functions.get(name), ast.AsyncFunctionDef)
        asyncio = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "asyncio"
        start, end = view.source.span(node)
        weight = 1.0 if known or asyncio else 0.35
        if isinstance(parent, (ast.Attribute, ast.Subscript)):
            yield Proposal((Edit(start, start, "(await "), Edit(end, end, ")")), "waits for the call", weight)
        else:
            yield Proposal((Edit(start, start, "await "),), "waits for the call", weight)


def _properties(view: ModuleView) -> frozenset[str]:
    """Names of properties, class variables and attributes of objects that are set in this file."""
    found: set[str] = set()
    for node in ast.walk(view.source.tree):
        if isinstance(node, FUNCTIONS):
            marks = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            if marks & {"property", "cached_property", "setter"}:
                found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            found.update(
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            )
    return frozenset(found)
