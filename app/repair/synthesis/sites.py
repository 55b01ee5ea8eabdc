"""Expressions of the program that a synthesised one may replace, the most suspicious first."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..source import ModuleSource
from ..values import Spot
from .terms import AND, ATOM, COMPARISON, CONDITIONAL, NOT, OR, PRODUCT, SIGN, SUM

CONDITION, VALUE = "condition", "value"
_LEAST_SUSPICION = 0.05
_MOST_PIECES = 6
_LONGEST = 160
_EFFECTS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_PIECES = (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.Compare, ast.BoolOp, ast.UnaryOp)


@dataclass(frozen=True)
class Site:
    """One expression. ``suspicion``: that of its lines, lowered for less likely roles; (0, 1]."""

    source: ModuleSource
    node: ast.expr
    kind: str
    suspicion: float
    role: str
    """What the expression is there: "condition", "returned value" ..."""

    @property
    def path(self) -> str:
        return self.source.path

    @cached_property
    def spot(self) -> Spot:
        return Spot.of(self.path, self.node)

    @cached_property
    def text(self) -> str:
        return self.source.segment(self.node)

    @cached_property
    def pieces(self) -> tuple[ast.expr, ...]:
        """Parts of the expression that new ones may use as they are, large ones first."""
        found = [
            each
            for each in ast.walk(self.node)
            if each is not self.node and isinstance(each, _PIECES) and self._is_piece(each)
        ]
        return tuple(found[:_MOST_PIECES])

    def _is_piece(self, node: ast.expr) -> bool:
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or not self.source.editable(node):
            return False
        parent = self.source.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return False  # a bound method is no value of interest
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return False
        return is_plain(node) and "\n" not in self.source.segment(node)

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Names and attributes in the expression."""
        return identifiers(self.node)

    @cached_property
    def neighbours(self) -> frozenset[str]:
        """Names and attributes in the statement around it (for a condition with what it guards)."""
        statement = self.source.statement_of(self.node)
        return self.identifiers if statement is None else identifiers(statement)


def identifiers(root: ast.AST) -> frozenset[str]:
    """Names and attribute names below a node."""
    names = [each.id for each in ast.walk(root) if isinstance(each, ast.Name)]
    names += [each.attr for each in ast.walk(root) if isinstance(each, ast.Attribute)]
    return frozenset(names)


def is_plain(node: ast.expr) -> bool:
    """Whether the expression may be written elsewhere in the same place: no assignments, no waiting."""
    return not any(isinstance(each, (*_EFFECTS, ast.Lambda, ast.Starred)) for each in ast.walk(node))


def level_of(node: ast.expr) -> int:
    """How tightly the expression binds; see ``terms``."""
    match node:
        case ast.BoolOp(op=ast.Or()):
            return OR
        case ast.BoolOp():
            return AND
        case ast.UnaryOp(op=ast.Not()):
            return NOT
        case ast.Compare():
            return COMPARISON
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return SUM
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod() | ast.MatMult()):
            return PRODUCT
        case ast.BinOp(op=ast.Pow()):
            return SIGN
        case ast.BinOp():
            return COMPARISON + 1
        case ast.UnaryOp():
            return SIGN
        case ast.IfExp():
            return CONDITIONAL
        case ast.Lambda() | ast.NamedExpr() | ast.Yield() | ast.YieldFrom() | ast.Starred():
            return 0
        case ast.GeneratorExp() | ast.Await():
            return 0
        case ast.Constant(value=int() | float()):
            return ATOM - 1  # `1.real` is no attribute access
        case _:
            return ATOM


def find_sites(
    sources: Mapping[str, ModuleSource], lines: Mapping[str, Mapping[int, float]], most: int
) -> list[Site]:
    """At most ``most`` expressions inside functions, by suspicion; ties in source order."""
    found: list[Site] = []
    for path in sorted(lines):
        source = sources[path]
        for node in ast.walk(source.tree):
            level = lines[path].get(getattr(node, "lineno", 0), 0.0)
            if isinstance(node, ast.comprehension):
                level = lines[path].get(node.target.lineno, 0.0)
            if level < _LEAST_SUSPICION:
                continue
            for expression, kind, role, weight in _roles(node):
                if _usable(source, expression, kind):
                    found.append(Site(source, expression, kind, level * weight, role))
    found.sort(key=lambda site: (-round(site.suspicion, 6), site.path, site.spot))
    first: dict[Spot, Site] = {}
    for site in found:
        first.setdefault(site.spot, site)
    return list(first.values())[:most]


def _usable(source: ModuleSource, node: ast.expr, kind: str) -> bool:
    if source.function_of(node) is None or not source.editable(node) or not is_plain(node):
        return False
    if isinstance(node, (ast.Slice, ast.Starred, ast.JoinedStr, ast.GeneratorExp)):
        return False
    if kind == VALUE and isinstance(node, (ast.Dict, ast.DictComp, ast.ListComp, ast.SetComp)):
        return False  # nothing of five nodes replaces these
    start, end = source.span(node)
    return end - start <= _LONGEST


_Role = tuple[ast.expr, str, str, float]


def _roles(node: ast.AST) -> Iterator[_Role]:
    """Expressions directly below a node, each once: kind, role, and how likely that role is to be wrong."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield test, CONDITION, "condition", 1.0
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield test, CONDITION, "condition", 0.9
            yield body, VALUE, "value", 0.7
            yield orelse, VALUE, "value", 0.7
        case ast.comprehension(ifs=ifs):
            for each in ifs:
                yield each, CONDITION, "condition", 1.0
        case ast.Return(value=ast.expr() as value):
            yield value, _kind(value), "returned value", 1.0
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            yield value, _kind(value), "assigned value", 0.95
        case ast.AugAssign(value=value):
            yield value, VALUE, "added value", 0.95
        case ast.Call(args=args, keywords=keywords):
            for each in args:
                yield each, _kind(each), "argument", 0.75
            for keyword in keywords:
                yield keyword.value, _kind(keyword.value), "argument", 0.7
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper)):
            for bound in (lower, upper):
                if bound is not None:
                    yield bound, VALUE, "bound", 0.8
        case ast.Subscript(slice=index):
            yield index, VALUE, "index", 0.75
        case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
            yield elt, _kind(elt), "element", 0.9
        case ast.DictComp(key=key, value=value):
            yield key, VALUE, "key", 0.8
            yield value, VALUE, "element", 0.85
        case ast.Tuple(elts=elements, ctx=ast.Load()) | ast.List(elts=elements, ctx=ast.Load()):
            for element in elements:
                yield element, _kind(element), "element", 0.85
        case ast.Dict(values=values):
            for value in values:
                yield value, _kind(value), "element", 0.75
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            for operand in (left, right):
                if isinstance(operand, (ast.BinOp, ast.Call, ast.Subscript)):
                    yield operand, VALUE, "operand", 0.7
        case ast.BoolOp(values=values):
            for value in values:
                yield value, CONDITION, "clause", 0.9
        case _:
            return


def _kind(node: ast.expr) -> str:
    boolean = isinstance(node, (ast.Compare, ast.BoolOp)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )
    return CONDITION if boolean else VALUE


def needed_level(source: ModuleSource, node: ast.expr) -> int:
    """How tightly a text must bind in the place of an expression; see ``level_of``."""
    start, end = source.span(node)
    parent = source.parents.get(node)
    if source.text[start - 1 : start] == "(" and source.text[end : end + 1] == ")":
        return 0
    match parent:
        case ast.BinOp():
            return level_of(parent) + 1
        case ast.Compare():
            return COMPARISON + 1
        case ast.BoolOp():
            return level_of(parent)
        case ast.UnaryOp(op=ast.Not()):
            return NOT
        case ast.UnaryOp():
            return SIGN
        case ast.IfExp() | ast.comprehension():
            return OR
        case ast.Attribute() | ast.Await():
            return ATOM
        case ast.Subscript() if parent.value is node:
            return ATOM
        case ast.Starred():
            return OR
        case _:
            return 0
