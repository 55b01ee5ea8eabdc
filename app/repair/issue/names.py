"""Names that a piece of code binds, and those it takes from outside."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field

from .blocks import parse_python


@dataclass
class _Names(ast.NodeVisitor):
    """Names that a piece of code binds and those it reads, scopes taken together."""

    imports: bool = True
    bound: set[str] = field(default_factory=set[str])
    read: set[str] = field(default_factory=set[str])
    star: bool = False

    def visit_Name(self, node: ast.Name) -> None:
        (self.read if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        self.bound.add(node.arg)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bound.add(node.name)
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.bound.add(node.name)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self.star = self.star or node.name == "*"
        if self.imports:
            self.bound.add(node.asname or node.name.partition(".")[0])


def _names(source: str, imports: bool = True) -> _Names:
    names = _Names(imports)
    tree = parse_python(source)
    if tree is not None:
        names.visit(tree)
    return names


def bound_names(source: str, *, imports: bool = True) -> frozenset[str]:
    """Names that a piece of code binds."""
    return frozenset(_names(source, imports).bound)


def free_names(source: str) -> frozenset[str]:
    """Names that a piece of code reads and does not bind, without builtins; none behind a star import."""
    names = _names(source)
    if names.star:
        return frozenset()
    return frozenset(names.read - names.bound - set(dir(builtins)) - {"__file__", "__name__"})
