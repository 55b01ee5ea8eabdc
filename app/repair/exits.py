"""Ways to leave a function or a round of a loop before a statement, likeliest first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .facts import is_generator, once, own_returns, unpacked_into, walk
from .scope import ModuleView, parameters
from .source import Function

_MOST = 8
_EMPTY_CALLS = {
    "tuple": "()",
    "list": "[]",
    "sorted": "[]",
    "dict": "{}",
    "set": "set()",
    "iter": "iter(())",
    "sum": "0",
    "len": "0",
    "str": '""',
    "bool": "False",
    "any": "False",
    "all": "True",
    "int": "0",
    "float": "0.0",
}
_EMPTY_METHODS = {"join": '""', "format": '""', "strip": '""', "split": "[]", "items": "[]", "lower": '""'}
_EMPTY_TYPES = {
    "list": "[]",
    "List": "[]",
    "Sequence": "[]",
    "dict": "{}",
    "Dict": "{}",
    "tuple": "()",
    "Tuple": "()",
    "set": "set()",
    "Set": "set()",
    "str": '""',
    "int": "0",
    "float": "0.0",
    "bool": "False",
    "Optional": "None",
}
_WORDS = (
    (re.compile(r"\bempty (?:list|sequence)|\[\]"), "[]"),
    (re.compile(r"\bempty (?:string|text)|\"\"|''"), '""'),
    (re.compile(r"\bempty (?:dict|dictionary|mapping)|\{\}"), "{}"),
    (re.compile(r"\bempty tuple|\(\)"), "()"),
    (re.compile(r"\bempty set|\bset\(\)"), "set()"),
)
_VALUE = re.compile(r"(?<![\w.-])(None|True|False|-?\d+(?:\.\d+)?)(?![\w.]*\w)")
_SITUATION = re.compile(
    r"\b(if|when|for|without|otherwise|or|unless|fewer|than|nothing|no|none|empty|missing|absent)\b"
)
_UNCHANGED = re.compile(r"\b(unchanged|as (?:it|they) (?:is|are)|as is|itself|stays?|kept)\b")


def exits(
    statement: ast.stmt, function: Function, view: ModuleView, subject: str = "", most: int = _MOST
) -> list[tuple[str, float]]:
    """Leaving statements with weights from 1 downwards.

    They follow the function's other returns, its docstring and annotation, the initial
    values of what it returns, its callers and the values that failing tests compare with.
    ``subject`` is the expression that the special value is about; it may be returned itself.
    """
    found: dict[str, float] = {}

    def offer(text: str, weight: float) -> None:
        found[text] = max(found.get(text, 0.0), weight)

    if view.source.loop_of(statement) is not None:
        offer("continue", 1.0)
        offer("break", 0.55)
    returns, generator = own_returns(function, view), is_generator(function, view)
    if generator or not returns or all(node.value is None for node in returns):
        offer("return", 0.97)
    if not generator and returns:
        for value, weight in _values(statement, function, view, returns, subject):
            offer(f"return {value}", weight)
    elif not generator:
        for value, weight in (("None", 0.5), ("[]", 0.5), ('""', 0.45), ("0", 0.45), ("False", 0.45)):
            offer(f"return {value}", weight)
        if subject and "." not in subject:
            offer(f"return {subject}", 0.44)
    return sorted(found.items(), key=lambda pair: -pair[1])[:most]


def _values(
    statement: ast.stmt, function: Function, view: ModuleView, returns: tuple[ast.Return, ...], subject: str
) -> Iterator[tuple[str, float]]:
    arity = unpacked_into(function, view)
    if arity:
        # Whoever calls it takes that many values: fewer would only move the failure.
        yield ", ".join(["None"] * arity), 0.99
    yield from _documented(function, subject)
    if function.returns is not None:
        for node in ast.walk(function.returns):
            name = node.id if isinstance(node, ast.Name) else None
            if isinstance(node, ast.Constant) and node.value is None:
                yield "None", 0.9
            elif name in _EMPTY_TYPES:
                yield _EMPTY_TYPES[name], 0.86
                break
    known = view.names_at(statement)
    for rank, node in enumerate(returns):
        if isinstance(node.value, ast.Constant):
            yield view.source.segment(node.value), 0.94 - 0.02 * min(rank, 5)
        elif node.value is not None:
            yield from once(view, _alike, node)
            if isinstance(node.value, ast.Name) and node.value.id in known:
                yield node.value.id, 0.9 if "default" in node.value.id else 0.85
    for name in view.evidence.names:
        # What the test compares with, when the module knows it by the same name.
        if name in view.module_names and name != function.name:
            yield name, 0.85
    if subject and "." not in subject:
        yield subject, 0.52
    yield from (("None", 0.68), ("[]", 0.6), ('""', 0.55), ("0", 0.6), ("False", 0.54), ("True", 0.4))


def _alike(node: ast.Return, view: ModuleView) -> tuple[tuple[str, float], ...]:
    function = view.source.function_of(node)
    if function is None or node.value is None:
        return ()
    return tuple(_like(node.value, function, view))


def _like(value: ast.expr, function: Function, view: ModuleView) -> Iterator[tuple[str, float]]:
    """The empty value of the kind that an expression gives."""
    if isinstance(value, (ast.List, ast.ListComp)):
        yield "[]", 0.9
        if isinstance(value, ast.ListComp) and len(value.generators) == 1:
            yield f"[0] * len({view.source.segment(value.generators[0].iter)})", 0.62
    elif isinstance(value, (ast.Dict, ast.DictComp)):
        yield "{}", 0.9
    elif isinstance(value, (ast.Set, ast.SetComp)):
        yield "set()", 0.9
    elif isinstance(value, (ast.Compare, ast.UnaryOp)):
        yield "False", 0.88
        yield "True", 0.84
    elif isinstance(value, ast.BoolOp):
        yield "False", 0.86
        yield "True", 0.83
    elif isinstance(value, ast.JoinedStr):
        yield '""', 0.88
    elif isinstance(value, ast.Tuple):
        yield ", ".join(["None"] * len(value.elts)), 0.88
    elif isinstance(value, ast.BinOp):
        yield ('""', 0.86) if _textual(value) else ("0", 0.88)
        if isinstance(value.op, ast.Div):
            yield "0.0", 0.85
    elif isinstance(value, ast.Call):
        if isinstance(value.func, ast.Name) and value.func.id in _EMPTY_CALLS:
            yield _EMPTY_CALLS[value.func.id], 0.87
        elif isinstance(value.func, ast.Attribute) and value.func.attr in _EMPTY_METHODS:
            yield _EMPTY_METHODS[value.func.attr], 0.85
    elif isinstance(value, ast.Subscript):
        yield "None", 0.8
        if isinstance(value.slice, ast.Slice):
            yield view.source.segment(value.value), 0.84
    elif isinstance(value, ast.Name):
        for node in walk(view, function):
            if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != value.id:
                continue
            text = view.source.segment(node.value)
            if text in ("[]", "{}", "set()", "0", "1", '""', "''", "None", "0.0", "False", "True"):
                yield text, 0.86
            elif isinstance(node.value, ast.Call):
                yield from _like(node.value, function, view)
            break
    elif isinstance(value, ast.IfExp):
        yield from _like(value.body, function, view)
        yield from _like(value.orelse, function, view)


def _textual(value: ast.AST) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in ast.walk(value)
    )


def _documented(function: Function, subject: str) -> Iterator[tuple[str, float]]:
    """Values that the docstring names for special situations."""
    text = ast.get_docstring(function, clean=False) or ""
    if not text:
        return
    near = bool(_SITUATION.search(text))
    for match in _VALUE.finditer(text):
        yield match[1], 0.96 if near else 0.7
    for pattern, value in _WORDS:
        if pattern.search(text):
            yield value, 0.95
    if _UNCHANGED.search(text):
        for name in (subject, *(each for each in parameters(function) if each not in ("self", "cls"))):
            if name and "." not in name:
                yield name, 0.93
