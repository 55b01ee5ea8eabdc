"""Statements as blocks of whole lines: looked into, re-indented, wrapped and moved.

As in ``edits``, None means: cannot be done safely here.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator, Sequence

from .scope import ModuleView
from .source import FUNCTIONS, Edit, Function

SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Delete, ast.Return, ast.Raise)
LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a statement without those of statements and lambdas inside it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.Lambda)):
            yield child
            yield from own_nodes(child)


def names_in(node: ast.AST) -> frozenset[str]:
    """Identifiers of all names below a node."""
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def stored_in(node: ast.AST) -> frozenset[str]:
    """Identifiers that a node binds or deletes."""
    return frozenset(
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
    )


def is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def first_real(function: Function) -> ast.stmt:
    """The first statement after a docstring (the docstring itself when there is no other)."""
    body = function.body
    return body[1] if is_docstring(body[0]) and len(body) > 1 else body[0]


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement, handlers included, in source order."""
    for field in ("body", "handlers", "orelse", "finalbody"):
        value = getattr(statement, field, None)
        if not isinstance(value, list) or not value:
            continue
        if field == "handlers":
            for handler in value:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(handler, ast.ExceptHandler):
                    yield handler.body
        elif isinstance(value[0], ast.stmt):
            yield value  # pyright: ignore[reportUnknownVariableType]


def is_elif(view: ModuleView, statement: ast.stmt) -> bool:
    start = view.source.span(statement)[0]
    return isinstance(statement, ast.If) and view.source.text.startswith("elif", start)


def movable(view: ModuleView, statement: ast.stmt) -> bool:
    """Whether its lines hold nothing else and can be re-indented without touching a string."""
    source = view.source
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)) or is_docstring(statement):
        return False
    if not source.alone_on_lines(statement) or is_elif(view, statement):
        return False
    start, end = source.span(statement)
    for token in source.tokens_between(start, end):
        several = "\n" in token.string or "\r" in token.string
        if several and token.kind not in (tokenize.NL, tokenize.NEWLINE):
            return False
    _, last = source.statement_lines(statement)
    return source.text[last - 1 : last] in ("\n", "\r")


def lines_of(view: ModuleView, statements: Sequence[ast.stmt]) -> tuple[int, int]:
    """Offsets of the whole lines from the first to the last of consecutive statements."""
    return view.source.statement_lines(statements[0])[0], view.source.statement_lines(statements[-1])[1]


def reindented(view: ModuleView, statements: Sequence[ast.stmt], indent: str) -> str | None:
    """The lines of consecutive movable statements with another indentation."""
    if not statements or not all(movable(view, each) for each in statements):
        return None
    old = view.source.indent(statements[0])
    start, end = lines_of(view, statements)
    lines = view.source.text[start:end].splitlines(keepends=True)
    return "".join(indent + line[len(old) :] if line.startswith(old) else line for line in lines)


def rendered(view: ModuleView, indent: str, lines: Sequence[str]) -> str:
    """Lines (tabs stand for the file's unit of indentation) as text at an indentation."""
    source = view.source
    return "".join(indent + line.replace("\t", source.indent_unit) + source.newline for line in lines)


def wrap(
    view: ModuleView, statements: Sequence[ast.stmt], before: Sequence[str], after: Sequence[str] = ()
) -> tuple[Edit, ...] | None:
    """Puts consecutive statements one level deeper between lines at their old level."""
    indent = view.source.indent(statements[0])
    inner = reindented(view, statements, indent + view.source.indent_unit)
    if inner is None:
        return None
    text = rendered(view, indent, before) + inner + rendered(view, indent, after)
    return (Edit(*lines_of(view, statements), text),)


def moved(view: ModuleView, statements: Sequence[ast.stmt], at: int, indent: str) -> tuple[Edit, ...] | None:
    """Moves consecutive statements to the line that starts at an offset."""
    text = reindented(view, statements, indent)
    start, end = lines_of(view, statements)
    if text is None or start < at < end:
        return None
    if at in (start, end):
        return (Edit(start, end, text),)
    return tuple(sorted((Edit(start, end, ""), Edit(at, at, text))))


def start_of(view: ModuleView, statement: ast.stmt) -> int:
    """Offset of the first line of a statement, decorators included."""
    return view.source.statement_lines(statement)[0]


def end_of(view: ModuleView, statement: ast.stmt) -> int:
    """Offset after the last line of a statement."""
    return view.source.statement_lines(statement)[1]
