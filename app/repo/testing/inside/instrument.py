"""Puts calls of probes into the syntax tree of a file; ``values.py`` has the probes."""

from __future__ import annotations

import ast
import sys
from typing import Any, Dict, List, Optional, Tuple

SCOPE = "__whimbrel_scope__"
SEEN = "__whimbrel_seen__"
ENTERED = "__whimbrel_entered__"
RETURNED = "__whimbrel_returned__"


def instrument(tree: ast.Module, wanted: List[Tuple[int, Dict[str, Any]]]) -> ast.Module:
    """The tree with probes at (number, place) pairs; places that do not exist are left out."""
    result: Any = _Instrument(wanted).visit(tree)
    fixed: ast.Module = ast.fix_missing_locations(result)
    return fixed


class _Instrument(ast.NodeTransformer):
    """Puts probes into a syntax tree."""

    def __init__(self, wanted: List[Tuple[int, Dict[str, Any]]]) -> None:
        self._values: Dict[Tuple[int, int, int, int], int] = {}
        self._lines: Dict[int, int] = {}
        self._calls: Dict[int, int] = {}
        for index, place in wanted:
            if place["kind"] == "value":
                key = (place["line"], place["column"], place["end_line"], place["end_column"])
                self._values[key] = index
            elif place["kind"] == "call":
                self._calls[place["line"]] = index
            else:
                self._lines[place["line"]] = index
        self._functions: List[Optional[int]] = []

    def visit_Module(self, node: Any) -> Any:
        chosen = {line: _statement_on(node, line) for line in self._lines}
        self._before = {id(each): self._lines[line] for line, each in chosen.items() if each is not None}
        return self.generic_visit(node)

    def visit(self, node: Any) -> Any:
        kind = type(node).__name__
        if kind in ("MatchValue", "MatchMapping", "MatchClass", "TypeAlias", "arg"):
            return node  # patterns and annotations hold expressions that are not evaluated as such
        if kind == "JoinedStr" and sys.version_info < (3, 12):
            return node  # positions inside are not those of the file
        probe = self._before.get(id(node)) if isinstance(node, ast.stmt) else None
        result = super().visit(node)
        if isinstance(node, ast.expr) and isinstance(result, ast.expr):
            result = self._around(node, result)
        if probe is None or _must_stay_first(node):
            return result
        rest = result if isinstance(result, list) else [result]
        return [_statement(node, SCOPE, probe), *rest]

    def visit_AnnAssign(self, node: Any) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: Any) -> Any:
        return self._function(node)

    def visit_Lambda(self, node: Any) -> Any:
        self._functions.append(None)
        self.generic_visit(node)
        self._functions.pop()
        return node

    def visit_Return(self, node: Any) -> Any:
        self.generic_visit(node)
        index = self._functions[-1] if self._functions else None
        if index is not None:
            value = node.value or ast.copy_location(ast.Constant(value=None), node)
            node.value = _call(value, RETURNED, [ast.Constant(value=index), value])
        return node

    def _function(self, node: Any) -> Any:
        index = self._calls.get(node.lineno)
        generator = _yields(node)
        self._functions.append(None if generator else index)
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        self._functions.pop()
        if index is not None:
            first = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body.insert(first, _statement(node, ENTERED, index))
            if not generator and not isinstance(node.body[-1], (ast.Return, ast.Raise)):
                end = node.body[-1]
                nothing = ast.Constant(value=None)
                node.body.append(
                    ast.copy_location(
                        ast.Expr(value=_call(end, RETURNED, [ast.Constant(value=index), nothing])), end
                    )
                )
        return node

    def _around(self, node: Any, result: Any) -> Any:
        key = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        index = self._values.get(key)
        loaded = isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        if index is None or not loaded or isinstance(node, (ast.Slice, ast.Starred)):
            return result
        if isinstance(node, ast.Tuple) and any(isinstance(e, (ast.Slice, ast.Starred)) for e in node.elts):
            return result
        if type(node).__name__ in ("FormattedValue", "Interpolation"):
            return result
        scope = _call(node, SCOPE, [ast.Constant(value=index)])
        return _call(node, SEEN, [scope, result])


def _call(where: Any, name: str, arguments: List[Any]) -> Any:
    function = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), where)
    for each in arguments:
        if not hasattr(each, "lineno"):
            ast.copy_location(each, where)
    return ast.copy_location(ast.Call(func=function, args=arguments, keywords=[]), where)


def _statement(where: Any, name: str, index: int) -> Any:
    return ast.copy_location(ast.Expr(value=_call(where, name, [ast.Constant(value=index)])), where)


def _must_stay_first(node: Any) -> bool:
    """Docstrings and imports from the future."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _statement_on(tree: Any, line: int) -> Any:
    """The innermost statement whose own lines (the header of a compound one) hold the line."""
    best: Any = None
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.lineno == line:
            return node.body[0]
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        last: int = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
        inside = node.lineno <= line <= max(last, node.lineno)
        if inside and (best is None or node.lineno >= best.lineno):
            best = node
    return best


def _yields(function: Any) -> bool:
    """Whether the function is a generator."""
    pending: List[Any] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))
    return False
