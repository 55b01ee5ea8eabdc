"""A source file as localisation sees it: statements with their function, control and data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ..source import FUNCTIONS, ModuleSource

MODULE = "<module>"

OPERATOR_METHODS: dict[type[ast.AST], str] = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__", ast.Mod: "__mod__",
    ast.FloorDiv: "__floordiv__", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__",
    ast.GtE: "__ge__", ast.In: "__contains__", ast.NotIn: "__contains__", ast.USub: "__neg__",
    ast.Invert: "__invert__",
}  # fmt: skip
_BUILTIN_METHODS = {
    "len": "__len__", "iter": "__iter__", "next": "__next__", "str": "__str__", "repr": "__repr__",
    "bool": "__bool__", "hash": "__hash__", "list": "__iter__", "tuple": "__iter__", "set": "__iter__",
    "sorted": "__iter__", "dict": "__iter__", "reversed": "__reversed__", "abs": "__abs__", "int": "__int__",
    "float": "__float__", "sum": "__iter__", "format": "__format__",
}  # fmt: skip


@dataclass(frozen=True)
class FunctionPlace:
    """One function: ``name`` is dotted, lines include decorators and header."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str
    """Name of the class whose body holds it, or empty."""
    first: int
    body: int
    """First line of the body; the header ends before it."""
    last: int

    @property
    def simple(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class Statement:
    """One simple statement, or the header of a compound one or of an exception handler."""

    index: int
    first: int
    last: int
    node: ast.stmt | ast.ExceptHandler
    function: str
    control: int | None
    """Index of the header whose branch holds this statement, within the same function."""


@dataclass
class Flow:
    """Names that a statement defines and uses, and the functions it may call by name."""

    defines: frozenset[str]
    uses: frozenset[str]
    calls: dict[str, float] = field(default_factory=dict[str, float])
    """Simple name -> how directly it is called: 1 a call, less for operators and mere mentions."""


class Outline:
    """Statements of one file in source order, with what localisation asks about them."""

    def __init__(self, source: ModuleSource) -> None:
        self.source = source
        self.path = source.path
        self.functions: dict[str, FunctionPlace] = {}
        self.statements: list[Statement] = []
        self._visit(source.tree.body, "", MODULE, None, "")
        self.at: dict[int, Statement] = {}
        for statement in self.statements:
            for line in range(statement.first, statement.last + 1):
                self.at.setdefault(line, statement)

    def _visit(
        self, body: list[ast.stmt], prefix: str, function: str, control: int | None, owner: str
    ) -> None:
        for node in body:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                self._definition(node, prefix, function, control, owner)
                continue
            index = len(self.statements)
            last = _header_end(node)
            self.statements.append(Statement(index, node.lineno, last, node, function, control))
            inner = (
                index if isinstance(node, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Match)) else control
            )
            handlers = {id(each.body): each for each in getattr(node, "handlers", ())}
            for block in _blocks(node):
                holder = handlers.get(id(block))
                if holder is not None:
                    at = len(self.statements)
                    end = max(holder.lineno, block[0].lineno - 1)
                    self.statements.append(Statement(at, holder.lineno, end, holder, function, control))
                self._visit(block, prefix, function, inner, owner)

    def _definition(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        prefix: str,
        function: str,
        control: int | None,
        owner: str,
    ) -> None:
        index = len(self.statements)
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        last = max(node.lineno, node.body[0].lineno - 1)
        name = f"{prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            self.statements.append(Statement(index, first, last, node, function, control))
            self._visit(node.body, f"{name}.", function, None, node.name)
            return
        end = node.end_lineno or node.lineno
        if name not in self.functions:
            self.functions[name] = FunctionPlace(name, node, owner, first, node.body[0].lineno, end)
        self.statements.append(Statement(index, first, last, node, name, None))
        self._visit(node.body, f"{name}.", name, None, "")

    # ------------------------------------------------------------ lookups

    @cached_property
    def by_function(self) -> dict[str, list[Statement]]:
        """The statements of each function (``<module>`` included), in order."""
        found: dict[str, list[Statement]] = {}
        for statement in self.statements:
            found.setdefault(statement.function, []).append(statement)
        return found

    @cached_property
    def classes(self) -> frozenset[str]:
        return frozenset(n.name for n in statements_in(self.source.tree) if isinstance(n, ast.ClassDef))

    def owner_of(self, line: int) -> str:
        """Dotted name of the innermost function around a line, or ``<module>``."""
        best = MODULE
        size = 1 << 60
        for place in self.functions.values():
            if place.node.lineno <= line <= place.last and place.last - place.first < size:
                best, size = place.name, place.last - place.first
        return best

    def controls(self, statement: Statement) -> Iterator[Statement]:
        """Headers that decide whether the statement runs, innermost first."""
        index = statement.control
        while index is not None:
            header = self.statements[index]
            yield header
            index = header.control

    @cached_property
    def flows(self) -> list[Flow]:
        """What each statement defines, uses and calls, by index."""
        return [flow_of(statement.node) for statement in self.statements]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Local name -> the imported one, where ``import ... as`` renames."""
        return aliases_of(self.source.tree)


def statements_in(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, outer ones first; much faster than a walk over every node."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, name, None)
        for each in block if isinstance(block, list) else ():
            if isinstance(each, ast.stmt):
                yield each
            yield from statements_in(each)


def aliases_of(tree: ast.AST) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in statements_in(tree):
        if isinstance(node, ast.ImportFrom):
            found.update({each.asname: each.name for each in node.names if each.asname})
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            # `fast = _slow` at module or class level is a second name.
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Name):
                found.setdefault(target.id, value.id if isinstance(value, ast.Name) else value.attr)
    return found


def own_parts(node: ast.stmt | ast.ExceptHandler) -> Iterator[ast.AST]:
    """The nodes of a statement without the blocks it holds (bodies of functions and lambdas included)."""
    inner = {id(each) for block in _blocks(node) for each in block}
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        inner |= {id(each) for each in node.body}
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [child for child in ast.iter_child_nodes(each) if id(child) not in inner]


def flow_of(node: ast.stmt | ast.ExceptHandler) -> Flow:
    """Definitions, uses and calls of one statement (of a compound one: of its header)."""
    defines: set[str] = set()
    uses: set[str] = set()
    calls: dict[str, float] = {}

    def call(name: str, weight: float) -> None:
        calls[name] = max(weight, calls.get(name, 0.0))

    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        defines.add(node.name)
    for each in own_parts(node):
        if isinstance(each, ast.Name):
            (uses if isinstance(each.ctx, ast.Load) else defines).add(each.id)
            if isinstance(each.ctx, ast.Load):
                call(each.id, 0.5)
        elif isinstance(each, ast.Attribute):
            key = _self_attribute(each)
            if isinstance(each.ctx, ast.Load):
                uses.add(key)
                call(each.attr, 0.5)
            else:
                defines.add(key)
        elif isinstance(each, ast.Subscript):
            if not isinstance(each.ctx, ast.Load):
                defines |= _root(each)
                call("__setitem__" if isinstance(each.ctx, ast.Store) else "__delitem__", 0.4)
            else:
                call("__getitem__", 0.4)
        elif isinstance(each, ast.Call):
            name = each.func.id if isinstance(each.func, ast.Name) else getattr(each.func, "attr", "")
            if name:
                call(name, 1.0)
                call(_BUILTIN_METHODS.get(name, ""), 0.4)
            if isinstance(each.func, ast.Attribute):
                # A method may change the object it is called on.
                defines |= _root(each.func.value)
        elif isinstance(each, (ast.BinOp, ast.UnaryOp)):
            call(OPERATOR_METHODS.get(type(each.op), ""), 0.4)
        elif isinstance(each, ast.Compare):
            for operator in each.ops:
                call(OPERATOR_METHODS.get(type(operator), ""), 0.4)
        elif isinstance(each, ast.AugAssign):
            call(OPERATOR_METHODS.get(type(each.op), ""), 0.4)
            uses |= _root(each.target)
        elif isinstance(each, (ast.For, ast.AsyncFor, ast.comprehension)):
            call("__iter__", 0.4)
        elif isinstance(each, (ast.withitem,)):
            call("__enter__", 0.4)
            call("__exit__", 0.4)
        elif isinstance(each, ast.alias):
            defines.add((each.asname or each.name).partition(".")[0])
    calls.pop("", None)
    return Flow(frozenset(defines), frozenset(uses), calls)


def _self_attribute(node: ast.Attribute) -> str:
    if isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return f".{node.attr}"


def _root(node: ast.AST) -> set[str]:
    """The name (or ``self.name``) at the start of a chain of attributes, indices and calls."""
    found: set[str] = set()
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(_self_attribute(node))
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        found.add(node.id)
    return found


def _blocks(node: ast.stmt | ast.ExceptHandler) -> Iterator[list[ast.stmt]]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def _header_end(node: ast.stmt) -> int:
    body = next(_blocks(node), None)
    if body is None:
        return node.end_lineno or node.lineno
    if isinstance(node, ast.Match):
        return node.subject.end_lineno or node.lineno
    return max(node.lineno, body[0].lineno - 1)
