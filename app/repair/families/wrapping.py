"""Conversions: a value wrapped into one, or taken out of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView

_WRAPPERS = ("len", "abs", "int", "str", "list", "sorted", "set", "float", "tuple", "bool")
_METHODS = ("strip", "lower", "copy")
_REMOVABLE = frozenset((*_WRAPPERS, "reversed", "round", "repr", "dict"))
_REMOVABLE_METHODS = frozenset(("strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "copy"))


class Wrapping(Family):
    name = "wrapping"
    prior = 0.45
    fault = "used a value without the right conversion"
    boosts = {"TypeError": 1.5, "AttributeError": 1.2}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call):
            yield from self._unwrap(node, view)
        for value in _values(node):
            if not view.source.editable(value) or isinstance(value, (ast.Constant, ast.Starred, ast.Lambda)):
                continue
            text = view.source.segment(value)
            for name in _WRAPPERS:
                if not text.startswith(f"{name}("):
                    yield Proposal(
                        replace(view, value, f"{name}({text})"), f"wraps `{text}` in {name}()", 0.7
                    )
            for name in _METHODS:
                if not text.endswith(f".{name}()"):
                    new = f"{enclosed(view, value)}.{name}()"
                    yield Proposal(replace(view, value, new), f"calls .{name}() on `{text}`", 0.7)

    def _unwrap(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node.func, ast.Name) and node.func.id in _REMOVABLE and len(node.args) == 1:
            text = enclosed(view, node.args[0])
            yield Proposal(replace(view, node, text), f"does without {node.func.id}()", 0.8, Harm.LOOSENS)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _REMOVABLE_METHODS and not node.args:
            text = view.source.segment(node.func.value)
            yield Proposal(replace(view, node, text), f"does without .{node.func.attr}()", 0.8, Harm.LOOSENS)


def _values(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Return, ast.Assign)) and node.value is not None:
        yield node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.iter
    elif isinstance(node, ast.Call):
        yield from (each for each in node.args if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)))
    elif isinstance(node, ast.Compare):
        yield from (
            each for each in (node.left, *node.comparators) if isinstance(each, (ast.Name, ast.Attribute))
        )
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
        yield node.slice
    elif isinstance(node, ast.BinOp):
        yield from (
            each for each in (node.left, node.right) if isinstance(each, (ast.Name, ast.Attribute, ast.Call))
        )
