"""Small builders of text edits that families share. None means: cannot be done safely here."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .scope import ModuleView
from .source import Edit

_ATOMS = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.Constant,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
)


def replace(view: ModuleView, node: ast.AST, text: str) -> tuple[Edit, ...]:
    """Replaces a node's text; parentheses around it stay."""
    start, end = view.source.span(node)
    return (Edit(start, end, text),)


def replace_operator(view: ModuleView, left: ast.AST, right: ast.AST, text: str) -> tuple[Edit, ...] | None:
    """Replaces the operator between two operands."""
    span = view.source.operator_between(left, right)
    return None if span is None else (Edit(*span, text),)


def enclosed(view: ModuleView, node: ast.expr) -> str:
    """The node's text, in parentheses unless it binds tighter than any operator."""
    text = view.source.segment(node)
    if isinstance(node, _ATOMS) and "\n" not in text and "\r" not in text:
        return text
    return f"({text})"


def insert_before(view: ModuleView, statement: ast.stmt, lines: Sequence[str]) -> tuple[Edit, ...] | None:
    """Inserts lines (relative indentation by the file's own unit as tabs) before a statement."""
    source = view.source
    if not source.alone_on_lines(statement) or getattr(statement, "decorator_list", None):
        return None
    if _is_elif(view, statement):
        return None
    at = source.line_start(source.span(statement)[0])
    return (Edit(at, at, _rendered(view, statement, lines)),)


def insert_after(view: ModuleView, statement: ast.stmt, lines: Sequence[str]) -> tuple[Edit, ...] | None:
    """Inserts lines after a statement, at its indentation."""
    source = view.source
    if not source.alone_on_lines(statement):
        return None
    _, end = source.statement_lines(statement)
    text = _rendered(view, statement, lines)
    if end == len(source.text) and not source.text.endswith(("\n", "\r")):
        text = source.newline + text[: -len(source.newline)]
    return (Edit(end, end, text),)


def delete_statement(view: ModuleView, statement: ast.stmt) -> tuple[Edit, ...] | None:
    """Removes a statement with its lines, or puts ``pass`` when its block would be empty."""
    source = view.source
    block = source.block_of(statement)
    if block is None or _is_elif(view, statement):
        return None
    if len(block) == 1 or not source.alone_on_lines(statement):
        if getattr(statement, "decorator_list", None):
            return None
        return replace(view, statement, "pass")
    return (Edit(*source.statement_lines(statement), ""),)


def first_line_body(view: ModuleView, statement: ast.stmt) -> bool:
    """Whether the statement is a compound one whose body starts on its own line."""
    body = getattr(statement, "body", None)
    return bool(body) and view.source.alone_on_lines(body[0])


def _is_elif(view: ModuleView, statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and view.source.text.startswith(
        "elif", view.source.span(statement)[0]
    )


def _rendered(view: ModuleView, statement: ast.stmt, lines: Sequence[str]) -> str:
    source = view.source
    indent = source.indent(statement)
    shown = (indent + line.replace("\t", source.indent_unit) + source.newline for line in lines)
    return "".join(shown)
