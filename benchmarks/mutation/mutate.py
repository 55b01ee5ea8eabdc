"""Seeded mutations of Python source for measuring fault localisation.

Written apart from the repair families on purpose: a localiser must not be measured with the
edits its own repairs undo. Every mutation keeps the number of lines, so the coverage of tests
that never reach it stays what it was.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass

from whimbrel.app.repair.source import FUNCTIONS, ModuleSource


@dataclass(frozen=True)
class Mutation:
    """One wrong edit of one file. ``lines``: where a person would say the fault is."""

    kind: str
    path: str
    function: str
    lines: tuple[int, ...]
    start: int
    end: int
    text: str
    touched: tuple[int, ...]
    """Lines whose execution makes a test able to notice."""

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


_ARITHMETIC = {
    ast.Add: ["-"], ast.Sub: ["+"], ast.Mult: ["+", "//"], ast.Div: ["//", "*"], ast.FloorDiv: ["/", "*"],
    ast.Mod: ["//"], ast.Pow: ["*"], ast.BitAnd: ["|"], ast.BitOr: ["&"], ast.BitXor: ["|"],
    ast.LShift: [">>"], ast.RShift: ["<<"],
}  # fmt: skip
_COMPARE = {
    ast.Lt: ["<=", ">"], ast.LtE: ["<", ">="], ast.Gt: [">=", "<"], ast.GtE: [">", "<="], ast.Eq: ["!="],
    ast.NotEq: ["=="], ast.Is: ["is not"], ast.IsNot: ["is"], ast.In: ["not in"], ast.NotIn: ["in"],
}  # fmt: skip
_NEIGHBOURS = {
    "append": "extend", "extend": "append", "lstrip": "rstrip", "rstrip": "lstrip", "strip": "lstrip",
    "startswith": "endswith", "endswith": "startswith", "find": "rfind", "rfind": "find", "lower": "upper",
    "upper": "lower", "keys": "values", "values": "keys", "split": "rsplit", "appendleft": "append",
    "popleft": "pop", "add": "discard", "index": "count", "min": "max", "max": "min", "any": "all", "all": "any",
    "sorted": "list", "group": "groups", "setdefault": "get", "isdigit": "isalpha", "union": "intersection",
    "bisect_left": "bisect_right", "bisect_right": "bisect_left", "ljust": "rjust", "rjust": "ljust",
}  # fmt: skip
_EXCEPTIONS = {
    "ValueError": "TypeError", "TypeError": "ValueError", "KeyError": "IndexError", "IndexError": "KeyError",
    "StopIteration": "ValueError", "AttributeError": "KeyError",
}  # fmt: skip


def mutations(source: ModuleSource) -> Iterator[Mutation]:
    """Every mutation of a file's functions, in source order within a walk of the tree."""
    for function, name in _functions(source.tree, ""):
        local = _names_of(function)
        for node in _own_nodes(function):
            if not source.editable(node) or source.inside_fstring(node):
                continue
            for kind, start, end, text, lines in _of_node(node, source, local, function):
                statement = source.statement_of(node)
                touched = _lines_of(statement) if statement is not None else lines
                if statement is function:  # a default value: felt wherever the function runs
                    touched = tuple(range(function.body[0].lineno, (function.end_lineno or 0) + 1))
                yield Mutation(kind, source.path, name, lines, start, end, text, touched)


Found = tuple[str, int, int, str, tuple[int, ...]]


def _of_node(
    node: ast.AST, source: ModuleSource, local: list[str], function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Found]:
    if isinstance(node, ast.expr) and not source.is_docstring(node):
        yield from _expression(node, source, local)
    if isinstance(node, ast.stmt) and node is not function:
        yield from _statement(node, source)
    if (
        isinstance(node, ast.ExceptHandler)
        and isinstance(node.type, ast.Name)
        and node.type.id in _EXCEPTIONS
    ):
        yield _at("wrong handler", source, node.type, _EXCEPTIONS[node.type.id])


def _at(kind: str, source: ModuleSource, node: ast.AST, text: str) -> Found:
    start, end = source.span(node)
    lines = tuple(range(source.line_of(start), source.line_of(max(start, end - 1)) + 1))
    # The number of lines stays the same.
    return (kind, start, end, text if len(lines) == 1 else _padded(text, len(lines) - 1), lines)


def _padded(text: str, breaks: int) -> str:
    missing = breaks - text.count("\n")
    return f"({text}{chr(10) * missing})" if missing > 0 else text


def _expression(node: ast.expr, source: ModuleSource, local: list[str]) -> Iterator[Found]:
    line = node.lineno
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        place = source.operator_between(node.left, node.right)
        textual = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if place and not textual:
            for text in _ARITHMETIC[type(node.op)]:
                yield ("arithmetic", *place, text, (source.line_of(place[0]),))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        place = source.operator_between(node.left, node.comparators[0])
        if place:
            for text in _COMPARE[type(node.ops[0])]:
                yield ("comparison", *place, text, (source.line_of(place[0]),))
    elif isinstance(node, ast.BoolOp):
        place = source.operator_between(node.values[0], node.values[1])
        if place and len(node.values) == 2:
            yield (
                "boolean",
                *place,
                "or" if isinstance(node.op, ast.And) else "and",
                (source.line_of(place[0]),),
            )
        for value in node.values[:2]:
            yield _at("dropped clause", source, node, source.segment(value))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield _at("dropped unary", source, node, source.segment(node.operand))
    elif isinstance(node, ast.Constant) and not isinstance(source.parents.get(node), ast.FormattedValue):
        yield from _constant(node, source)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in local:
        at = local.index(node.id)
        for step in (1, 2):
            other = local[(at + step) % len(local)]
            if other != node.id:
                yield _at("wrong variable", source, node, other)
    elif isinstance(node, ast.Attribute) and node.attr in _NEIGHBOURS:
        end = source.span(node)[1]
        yield ("wrong method", end - len(node.attr), end, _NEIGHBOURS[node.attr], (source.line_of(end - 1),))
    elif isinstance(node, ast.Call):
        yield from _call(node, source)
    elif isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield _at("slice bound", source, bound, f"({source.segment(bound)}) + 1")
    elif isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Constant, ast.Tuple)):
        if isinstance(node.ctx, ast.Load):
            yield _at("index", source, node.slice, f"({source.segment(node.slice)}) - 1")
    elif isinstance(node, ast.IfExp):
        yield _at("conditional", source, node, source.segment(node.orelse))
        yield ("negated", *source.span(node.test), f"not ({source.segment(node.test)})", (line,))


def _constant(node: ast.Constant, source: ModuleSource) -> Iterator[Found]:
    value = node.value
    if value is True or value is False:
        yield _at("constant", source, node, str(not value))
    elif isinstance(value, int):
        yield _at("constant", source, node, f"{value + 1}")
        if value:
            yield _at("constant", source, node, f"{value - 1}")
    elif isinstance(value, str) and node.lineno == node.end_lineno and 0 < len(value) < 12:
        yield _at("string", source, node, '""')
        yield _at("string", source, node, repr(value + " "))
    elif value is None:
        yield _at("constant", source, node, "0")


def _call(node: ast.Call, source: ModuleSource) -> Iterator[Found]:
    if isinstance(node.func, ast.Name) and node.func.id in _NEIGHBOURS:
        yield _at("wrong callee", source, node.func, _NEIGHBOURS[node.func.id])
    plain = [each for each in node.args if not isinstance(each, ast.Starred)]
    if len(node.args) == 1 and plain and not node.keywords:
        yield _at("unwrapped call", source, node, source.segment(node.args[0]))
    if len(plain) >= 2 and node.lineno == node.end_lineno and len(plain) == len(node.args):
        first, second = source.span(plain[0]), source.span(plain[1])
        text = (
            source.text[second[0] : second[1]]
            + source.text[first[1] : second[0]]
            + source.text[slice(*first)]
        )
        yield ("swapped arguments", first[0], second[1], text, (node.lineno,))
        last, before = source.span(plain[-1]), source.span(plain[-2])
        yield ("dropped argument", before[1], last[1], "", (node.lineno,))
    if isinstance(node.func, ast.Name) and node.func.id == "range":
        yield (
            _at("loop bound", source, plain[-1], f"({source.segment(plain[-1])}) - 1")
            if plain
            else ("", 0, 0, "", ())
        )


def _statement(node: ast.stmt, source: ModuleSource) -> Iterator[Found]:
    lines = _lines_of(node)
    start, end = source.span(node)
    breaks = source.text[start:end].count("\n")
    removable = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Raise, ast.Break, ast.Continue)
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, removable) and not text:
        yield ("replaced by pass", start, end, "pass" + "\n" * breaks, lines)
        block = source.block_of(node)
        if block is not None and len(block) > 1 and source.alone_on_lines(node):
            at = block.index(node)
            before = _lines_of(block[at - 1]) if at else ()
            if at and isinstance(block[at - 1], ast.Expr) and source.is_docstring(block[at - 1].value):
                owner = source.parents.get(node)
                before = _lines_of(owner) if isinstance(owner, ast.stmt) else ()
            after = _lines_of(block[at + 1]) if at + 1 < len(block) else ()
            yield ("deleted statement", start, end, "\n" * breaks, (*before, *lines, *after))
    if isinstance(node, ast.Return) and node.value is not None:
        yield ("return", start, end, "return None" + "\n" * breaks, lines)
    if isinstance(node, ast.Break):
        yield ("loop exit", start, end, "continue", lines)
    if isinstance(node, ast.Continue):
        yield ("loop exit", start, end, "break", lines)
    if isinstance(node, (ast.If, ast.While)):
        header = tuple(range(node.lineno, (node.test.end_lineno or node.lineno) + 1))
        test = source.span(node.test)
        pad = "\n" * source.text[test[0] : test[1]].count("\n")
        yield ("negated", *test, f"not ({source.text[slice(*test)]})", header)
        if isinstance(node, ast.If):
            yield ("condition", *test, f"(True{pad})", header)
            yield ("condition", *test, f"(False{pad})", header)
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        place = source.operator_between(node.target, node.value)
        if place:
            text = _ARITHMETIC[type(node.op)][0]
            yield ("update", *place, f"{text}=", (source.line_of(place[0]),))
            yield ("update", *place, "=", (source.line_of(place[0]),))
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Dict)) and len(lines) == 1:
        yield _at("initial value", source, node.value, "None")
    block = source.block_of(node)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and block and len(lines) == 1:
        at = block.index(node)
        follower = block[at + 1] if at + 1 < len(block) else None
        plain = isinstance(follower, (ast.Assign, ast.AugAssign, ast.Expr)) and source.alone_on_lines(node)
        if plain and follower and source.alone_on_lines(follower) and follower.lineno == follower.end_lineno:
            last = source.span(follower)
            text = source.text[slice(*last)] + source.text[end : last[0]] + source.text[start:end]
            yield ("swapped statements", start, last[1], text, (*lines, *_lines_of(follower)))


def _lines_of(node: ast.stmt) -> tuple[int, ...]:
    """Lines of a simple statement, or of a compound one's header."""
    body = getattr(node, "body", None)
    last = max(node.lineno, body[0].lineno - 1) if isinstance(body, list) and body else node.end_lineno
    return tuple(range(node.lineno, (last or node.lineno) + 1))


def _functions(owner: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for child in ast.iter_child_nodes(owner):
        if isinstance(child, FUNCTIONS):
            yield child, f"{prefix}{child.name}"
        inner = f"{prefix}{child.name}." if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else prefix
        yield from _functions(child, inner)


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Nodes of a function's body and defaults, without the functions and classes in it."""
    waiting: list[ast.AST] = [
        *function.body,
        *function.args.defaults,
        *(each for each in function.args.kw_defaults if each is not None),
    ]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        yield node
        waiting[:0] = list(ast.iter_child_nodes(node))


def _names_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    names += [
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]
    return list(dict.fromkeys(names))


def sample(sources: list[ModuleSource], count: int, seed: int, per_function: int = 3) -> Iterator[Mutation]:
    """Mutations in a seeded order that gives every kind and every function its turn; parsable ones only."""
    chance = random.Random(seed)
    by_kind: dict[str, list[tuple[ModuleSource, Mutation]]] = {}
    for source in sources:
        for mutation in mutations(source):
            if mutation.kind:
                by_kind.setdefault(mutation.kind, []).append((source, mutation))
    for each in by_kind.values():
        chance.shuffle(each)
    kinds = sorted(by_kind)
    used: dict[tuple[str, str], int] = {}
    given = 0
    while given < count and any(by_kind.values()):
        for kind in kinds:
            while by_kind[kind]:
                source, mutation = by_kind[kind].pop()
                key = (mutation.path, mutation.function)
                text = mutation.apply(source.text)
                if used.get(key, 0) >= per_function or text.count("\n") != source.text.count("\n"):
                    continue
                try:
                    tree = ast.parse(text)
                except (SyntaxError, ValueError):
                    continue  # not a program: not a fault that tests could show
                if ast.dump(tree) == ast.dump(source.tree):
                    continue
                used[key] = used.get(key, 0) + 1
                given += 1
                yield mutation
                break
