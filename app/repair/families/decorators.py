"""Decorators left out or superfluous: property, staticmethod, classmethod, wraps, contextmanager, setters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import is_docstring
from ..facts import attribute_uses, functions, once
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Edit, Function

_BINDING = frozenset(("property", "staticmethod", "classmethod", "cached_property"))


class Decorators(Family):
    name = "decorator"
    prior = 0.7
    fault = "was bound in the wrong way"
    boosts = {"TypeError": 1.4, "AttributeError": 1.3}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            # A method that is bound wrongly may fail before its own first line runs.
            node = _methods(view).get(node.attr, node)
        if not isinstance(node, FUNCTIONS) or not view.source.alone_on_lines(node):
            return
        owner = view.source.parents.get(node)
        if isinstance(owner, ast.ClassDef):
            yield from self._method(node, owner, view)
            yield from self._superfluous(node, view)
        for enclosing in view.source.ancestors(node):
            if isinstance(enclosing, FUNCTIONS):
                yield from self._wraps(node, enclosing, view)
                break
        bare = "contextmanager" in view.module_names and not node.decorator_list
        if bare and any(isinstance(each, ast.Yield) for each in ast.walk(node)):
            yield Proposal(_above(node, "contextmanager", view), "makes a context manager of it", 0.8)

    def _method(self, node: Function, owner: ast.ClassDef, view: ModuleView) -> Iterator[Proposal]:
        decorated = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        if decorated & _BINDING or node.name.startswith("__"):
            return
        given = parameters(node)
        first = given[0] if given else ""
        if first == "cls":
            yield Proposal(_above(node, "classmethod", view), "makes it a class method", 1.0)
        elif first != "self":
            yield Proposal(_above(node, "staticmethod", view), "makes it a static method", 1.0)
        if first == "self" and len(given) == 1:
            called, loaded = attribute_uses(node.name, view)
            weight = 0.95 if loaded and not called else 0.5 if not called else 0.25
            yield Proposal(_above(node, "property", view), "makes it a property", weight)
        earlier = [
            each
            for each in owner.body
            if isinstance(each, FUNCTIONS) and each.name == node.name and each.lineno < node.lineno
        ]
        if earlier and len(given) == 2:
            yield Proposal(_above(node, f"{node.name}.setter", view), "makes it the property's setter", 1.0)

    def _superfluous(self, node: Function, view: ModuleView) -> Iterator[Proposal]:
        for each in node.decorator_list:
            name = each.id if isinstance(each, ast.Name) else ""
            if name not in _BINDING:
                continue
            start, end = view.source.span(each)
            line = Edit(view.source.line_start(start), view.source.line_end(end), "")
            receiver = parameters(node)[:1] == ("self",)
            if name == "property":
                called, _ = attribute_uses(node.name, view)
                yield Proposal((line,), "makes it a method", 0.9 if called else 0.4, Harm.PRECISE)
            elif receiver:
                yield Proposal((line,), "makes it a method of the instance", 0.95, Harm.PRECISE)
            elif name == "staticmethod" and parameters(node)[:1] == ("cls",):
                yield Proposal((Edit(start, end, "classmethod"),), "makes it a class method", 1.0)
            elif name == "classmethod" and parameters(node)[:1] != ("cls",):
                yield Proposal((Edit(start, end, "staticmethod"),), "makes it a static method", 0.9)

    def _wraps(self, node: Function, enclosing: Function, view: ModuleView) -> Iterator[Proposal]:
        """A function that stands for the one it calls, under that one's name."""
        if node.decorator_list or not any(
            isinstance(each, ast.Return) and isinstance(each.value, ast.Name) and each.value.id == node.name
            for each in ast.walk(enclosing)
        ):
            return
        called = {
            each.func.id
            for each in ast.walk(node)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
        }
        for name in parameters(enclosing):
            if name not in called:
                continue
            if "wraps" in view.module_names:
                yield Proposal(_above(node, f"wraps({name})", view), f"keeps the name of {name}", 0.9)
                continue
            edits = _above(node, f"functools.wraps({name})", view)
            if "functools" not in view.module_names:
                edits = (_import(view, "functools"), *edits)
            yield Proposal(edits, f"keeps the name of {name}", 0.9)


def _above(node: Function, decorator: str, view: ModuleView) -> tuple[Edit, ...]:
    """A decorator nearest to the function."""
    start = view.source.line_start(view.source.span(node)[0])
    return (Edit(start, start, f"{view.source.indent(node)}@{decorator}{view.source.newline}"),)


def _import(view: ModuleView, module: str) -> Edit:
    """An import before the first import or statement of the file."""
    for statement in view.source.tree.body:
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not is_docstring(statement) and not future:
            at = view.source.statement_lines(statement)[0]
            return Edit(at, at, f"import {module}{view.source.newline}")
    end = len(view.source.text)
    return Edit(end, end, f"import {module}{view.source.newline}")


def _methods(view: ModuleView) -> dict[str, Function]:
    return once(view, _methods_by_name, view.source.tree)


def _methods_by_name(tree: ast.Module, view: ModuleView) -> dict[str, Function]:
    return {
        each.name: each for each in functions(view) if isinstance(view.source.parents.get(each), ast.ClassDef)
    }
