"""What a search keeps: the best so far, noted and compared; the last error; the first thing found."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import LEAVING, stored_in
from ..edits import insert_after, insert_before, replace
from ..facts import walk
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit, Function

_SIMPLE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)
_MOST_PARTS = 3


class Tracking(Family):
    name = "tracking"
    prior = 0.68
    trust = 0.75
    fault = "did not keep what it found"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        function = view.source.function_of(node)
        if function is None:
            return
        if isinstance(node, ast.If):
            yield from self._noted(node, function, view)
            yield from self._compared(node, view)
        if isinstance(node, ast.stmt):
            yield from self._caught(node, function, view)
            yield from self._first_only(node, view)

    def _noted(self, node: ast.If, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """``if size > most:`` in a loop that never changes ``most``."""
        loop = view.source.loop_of(node)
        if loop is None:
            return
        inside = stored_in(loop).union(*(stored_in(each) for each in loop.body))
        before = {
            each.id
            for each in walk(view, function)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.lineno < loop.lineno
        }
        for each in ast.walk(node.test):
            if not isinstance(each, ast.Compare) or len(each.ops) != 1:
                continue
            for kept, value in ((each.comparators[0], each.left), (each.left, each.comparators[0])):
                if not isinstance(kept, ast.Name) or not isinstance(value, _SIMPLE):
                    continue
                if kept.id not in before or kept.id in inside:
                    continue
                text = f"{kept.id} = {ast.unparse(value)}"
                last = node.body[-1]
                edits = insert_before(view, last, [text]) if isinstance(last, LEAVING) else None
                edits = edits or insert_after(view, last, [text])
                if edits is not None:
                    yield Proposal(edits, f"keeps the value compared: `{text}`", 1.0)

    def _compared(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """``if best is None: best = ...`` in a loop takes the first, not the best."""
        if view.source.loop_of(node) is None or not view.source.editable(node.test):
            return
        test = node.test
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
            return
        empty = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        if not empty or not isinstance(test.ops[0], ast.Is):
            return
        name, condition = test.left.id, view.source.segment(test)
        for statement in node.body:
            for part, kept in _parts_given(statement, name):
                for operator in ("<", ">"):
                    text = f"{condition} or {part} {operator} {kept}"
                    yield Proposal(replace(view, test, text), f"also when {part} {operator} {kept}", 0.85)

    def _caught(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """A name that starts as None, is read, and never gets the error it was meant for."""
        handler = view.source.parents.get(node)
        if not isinstance(handler, ast.ExceptHandler) or not handler.name or handler.body[0] is not node:
            return
        for name in _never_set(function, view):
            edits = insert_before(view, node, [f"{name} = {handler.name}"])
            if edits is not None:
                yield Proposal(edits, f"keeps the error in {name}", 1.0)

    def _first_only(self, node: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """A loop that returns what its first round found, or did not find."""
        loop = view.source.loop_of(node)
        if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Call) or loop is None:
            return
        if loop.body[-1] is not node or not view.source.alone_on_lines(node):
            return
        yield from self._all_or_any(node, loop, view)
        name = next(each for each in ("found", "result", "outcome") if each not in view.names_at(node))
        first = insert_before(view, node, [f"{name} = {view.source.segment(node.value)}"])
        if first is None or "\n" in view.source.segment(node.value):
            return
        start, end = view.source.span(node)
        inner = view.source.newline + view.source.indent(node) + view.source.indent_unit
        for condition, weight in ((f"{name} is not None", 1.0), (name, 0.8)):
            edit = Edit(start, end, f"if {condition}:{inner}return {name}")
            yield Proposal((*first, edit), "goes on when nothing was found", weight)

    def _all_or_any(self, node: ast.Return, loop: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """``return x.good()`` in a loop that is followed by ``return True``: all must be, not the first."""
        following = view.source.block_of(loop)
        after = following[following.index(loop) + 1 :] if following else []
        ends = after[0] if after else None
        if not isinstance(ends, ast.Return) or not isinstance(ends.value, ast.Constant) or node.value is None:
            return
        value = view.source.segment(node.value)
        if "\n" in value or not isinstance(ends.value.value, bool):
            return
        condition = f"not {value}" if ends.value.value else value
        start, end = view.source.span(node)
        inner = view.source.newline + view.source.indent(node) + view.source.indent_unit
        text = f"if {condition}:{inner}return {not ends.value.value}"
        yield Proposal((Edit(start, end, text),), "asks every one, not only the first", 1.0)


def _parts_given(statement: ast.stmt, name: str) -> Iterator[tuple[str, str]]:
    """(value, where it is kept) of an assignment to a name, item by item."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        kept = [each.id for each in target.elts if isinstance(each, ast.Name)]
        if name in kept and len(kept) == len(target.elts):
            pairs = list(zip(value.elts, kept, strict=True))[:_MOST_PARTS]
            yield from ((ast.unparse(part), place) for part, place in pairs if isinstance(part, _SIMPLE))
    elif isinstance(target, ast.Name) and target.id == name:
        if isinstance(value, ast.Tuple):
            for index, part in enumerate(value.elts[:_MOST_PARTS]):
                if isinstance(part, _SIMPLE):
                    yield ast.unparse(part), f"{name}[{index}]"
        elif isinstance(value, _SIMPLE):
            yield ast.unparse(value), name


def _never_set(function: Function, view: ModuleView) -> list[str]:
    stores: dict[str, list[ast.AST | None]] = {}
    loads: set[str] = set()
    for each in walk(view, function):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            loads.add(each.id)
        elif isinstance(each, ast.Name):
            parent = view.source.parents.get(each)
            stores.setdefault(each.id, []).append(parent.value if isinstance(parent, ast.Assign) else None)
    return [
        name
        for name, values in stores.items()
        if name in loads
        and len(values) == 1
        and isinstance(values[0], ast.Constant)
        and values[0].value is None
    ]
