"""What is still to be done, kept in a list: what is found is not put in, what is done is not taken out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import LEAVING
from ..edits import insert_after, insert_before
from ..facts import walk
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, LOOPS

_TAKES = ("pop", "popleft")
_PUTS = ("append", "extend", "add", "appendleft", "insert", "put", "update", "push")
_MOST_ITEMS = 4


class Worklists(Family):
    name = "worklist"
    prior = 0.62
    trust = 0.85
    fault = "did not keep its list of what is left to do"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.While):
            yield from self._put_in(node, view)
        elif isinstance(node, ast.If):
            yield from self._taken_out(node, view)

    def _put_in(self, loop: ast.While, view: ModuleView) -> Iterator[Proposal]:
        """``while stack:`` that only takes from the stack."""
        taken: dict[str, str] = {}
        for method, base, _ in _calls(loop, view):
            if method in _TAKES:
                taken.setdefault(base, method)
        asked = {
            ast.unparse(each) for each in ast.walk(loop.test) if isinstance(each, (ast.Name, ast.Attribute))
        }
        grown = {base for method, base, _ in _calls(loop, view) if method in _PUTS}
        for name in taken:
            if name not in asked or name in grown:
                continue
            for statement, item, weight in _items(loop, name, view):
                edits = insert_after(view, statement, [f"{name}.append({item})"])
                if edits is not None:
                    yield Proposal(edits, f"adds `{name}.append({item})`", weight)

    def _taken_out(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """A check of the first or last element, which stays where it is when its turn has come."""
        function = view.source.function_of(node)
        if function is None:
            return
        removed = {
            base for method, base, _ in _calls(function, view) if method in (*_TAKES, "remove", "clear")
        }
        for each in ast.walk(node.test):
            if not isinstance(each, ast.Subscript) or not isinstance(each.value, (ast.Name, ast.Attribute)):
                continue
            base = ast.unparse(each.value)
            first = isinstance(each.slice, ast.Constant) and each.slice.value == 0
            last = isinstance(each.slice, ast.UnaryOp) and ast.unparse(each.slice) == "-1"
            if base in removed or not (first or last):
                continue
            line = f"{base}.pop(0)" if first else f"{base}.pop()"
            places: list[tuple[ast.stmt, bool, float]] = [(node, False, 1.0)]
            if not isinstance(node.body[-1], LEAVING):
                places.append((node.body[-1], False, 0.9))
            else:
                places.append((node.body[-1], True, 0.7))
            around = view.source.parents.get(node)
            if isinstance(around, (ast.If, *LOOPS)):
                places.append((around, False, 0.8))
            for statement, before, weight in places:
                edits = (insert_before if before else insert_after)(view, statement, [line])
                if edits is not None:
                    yield Proposal(edits, f"adds `{line}`", weight)


def _calls(node: ast.AST, view: ModuleView) -> Iterator[tuple[str, str, ast.Call]]:
    """(method, object, call) of the method calls below a node."""
    for each in walk(view, node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            yield each.func.attr, ast.unparse(each.func.value), each


def _items(loop: ast.While, name: str, view: ModuleView) -> Iterator[tuple[ast.stmt, str, float]]:
    """Where a loop finds something, and what: marked as seen, counted, or given by an inner loop."""
    found = 0
    for method, base, call in _calls(loop, view):
        statement = view.source.parents.get(call)
        if method in _PUTS and base != name and len(call.args) == 1 and isinstance(statement, ast.Expr):
            found += 1
            yield statement, view.source.segment(call.args[0]), 1.0
        if found >= _MOST_ITEMS:
            return
    for each in walk(view, loop):
        if isinstance(each, ast.For) and isinstance(each.target, ast.Name):
            yield each.body[-1], each.target.id, 0.6
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Subscript):
            key = each.targets[0].slice
            if isinstance(key, ast.Name) and not isinstance(view.source.parents.get(each), FUNCTIONS):
                yield each, key.id, 0.9
