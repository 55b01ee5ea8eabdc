"""What kind of statement it is, and how much there is in it to get wrong."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..source import FUNCTIONS
from .outline import Statement, own_parts

_CONTENT: Mapping[type[ast.AST], float] = {
    ast.BinOp: 1.0, ast.Compare: 1.0, ast.BoolOp: 1.0, ast.UnaryOp: 1.0, ast.IfExp: 1.0, ast.Subscript: 0.7,
    ast.Slice: 1.0, ast.Constant: 0.7, ast.Call: 0.6, ast.Attribute: 0.3, ast.Name: 0.25, ast.keyword: 0.4,
    ast.comprehension: 0.7, ast.AugAssign: 1.0, ast.Return: 0.6, ast.Lambda: 0.5, ast.List: 0.3,
    ast.Dict: 0.3, ast.Yield: 0.4,
}  # fmt: skip


def kind_of(statement: Statement) -> str:
    """header, definition, module, if, loop, return, assign, update, call, raise, jump, import or other."""
    node = statement.node
    if isinstance(node, FUNCTIONS):
        return "definition"
    if isinstance(node, (ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
        return "import"
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            return "text"
        return "yield" if isinstance(node.value, (ast.Yield, ast.YieldFrom)) else "call"
    for kind, types in _KINDS.items():
        if isinstance(node, types):
            return kind
    return "other"


_KINDS: Mapping[str, tuple[type[ast.stmt], ...]] = {
    "if": (ast.If, ast.Match),
    "loop": (ast.For, ast.AsyncFor, ast.While),
    "return": (ast.Return,),
    "update": (ast.AugAssign,),
    "assign": (ast.Assign, ast.AnnAssign),
    "raise": (ast.Raise, ast.Assert),
    "jump": (ast.Break, ast.Continue, ast.Pass),
    "block": (ast.With, ast.AsyncWith, ast.Try),
}


def content_of(statement: Statement) -> float:
    """Weighted number of operators, constants, calls and names: each is a chance to be wrong."""
    node = statement.node
    if isinstance(node, FUNCTIONS):
        defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]
        return float(len(defaults))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return 0.0
    return sum(_CONTENT.get(type(each), 0.0) for each in own_parts(node))


def constants_of(statement: Statement) -> frozenset[str]:
    """Text and number constants of a statement, as they would show in a message."""
    found: set[str] = set()
    for each in own_parts(statement.node):
        if isinstance(each, ast.Constant) and isinstance(each.value, (str, int, float)):
            text = str(each.value).strip()
            if text and len(text) < 40 and not isinstance(each.value, bool):
                found.add(text)
    return frozenset(found)


def raises(statement: Statement) -> str:
    """Name of the exception that a raise statement makes, or empty."""
    node = statement.node
    if not isinstance(node, ast.Raise) or node.exc is None:
        return ""
    target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
