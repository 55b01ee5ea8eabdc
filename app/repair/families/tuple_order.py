"""Tuples: items in the wrong order, one too many, or one with the wrong sign."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

_MOST_ITEMS = 6


class TupleOrder(Family):
    name = "tuple-order"
    prior = 0.8
    fault = "took or gave values in the wrong order"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Tuple) and 2 <= len(node.elts) <= _MOST_ITEMS:
            yield from self._items(node, view)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._both_sides(node, view)
        elif isinstance(node, (ast.Assign, ast.For, ast.comprehension)):
            yield from self._parallel(node, view)

    def _items(self, node: ast.Tuple, view: ModuleView) -> Iterator[Proposal]:
        if any(isinstance(each, ast.Starred) for each in node.elts):
            return
        literal = all(isinstance(each, ast.Constant) for each in node.elts)
        parent = view.source.parents.get(node)
        annotation = isinstance(parent, ast.Subscript)
        for (i, first), (j, second) in itertools.combinations(enumerate(node.elts), 2):
            one, two = view.source.segment(first), view.source.segment(second)
            if one != two:
                weight = 0.9 if j == i + 1 else 0.8 if len(node.elts) == 3 else 0.4
                weight *= 0.4 if literal or annotation else 1.0
                edits = replace(view, first, two) + replace(view, second, one)
                yield Proposal(edits, f"swaps {_short(one)} and {_short(two)}", weight)
        if isinstance(node.ctx, ast.Store) or literal or annotation:
            return
        for position, each in enumerate(node.elts):
            text = view.source.segment(each)
            if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                yield Proposal(replace(view, each, f"-{text}"), f"negates {_short(text)}", 0.5)
            if len(node.elts) > 2 or isinstance(parent, (ast.Lambda, ast.keyword)):
                yield Proposal(
                    _without(node, position, view), f"leaves {_short(text)} out", 0.35, Harm.REMOVES
                )

    def _both_sides(self, node: ast.Compare, view: ModuleView) -> Iterator[Proposal]:
        """``(a, b) < (c, d)`` with both pairs turned."""
        left, right = node.left, node.comparators[0]
        if not isinstance(left, ast.Tuple) or not isinstance(right, ast.Tuple):
            return
        if len(left.elts) != len(right.elts) or len(left.elts) < 2:
            return
        for i in range(len(left.elts) - 1):
            edits: tuple[Edit, ...] = ()
            for side in (left, right):
                first, second = side.elts[i], side.elts[i + 1]
                edits += replace(view, first, view.source.segment(second))
                edits += replace(view, second, view.source.segment(first))
            yield Proposal(edits, "compares in the other order", 0.8)

    def _parallel(
        self, node: ast.Assign | ast.For | ast.comprehension, view: ModuleView
    ) -> Iterator[Proposal]:
        """``a, b, c`` where ``(a, b), c`` or ``a, (b, c)`` belongs."""
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Tuple) or len(target.elts) != 3:
            return
        if any(not isinstance(each, ast.Name) for each in target.elts):
            return
        one, two, three = (view.source.segment(each) for each in target.elts)
        start, end = view.source.span(target)
        for text in (f"{one}, ({two}, {three})", f"({one}, {two}), {three}"):
            yield Proposal((Edit(start, end, text),), "unpacks the inner pair", 0.3)


def _without(node: ast.Tuple, position: int, view: ModuleView) -> tuple[Edit, ...]:
    """Deletes one item with a comma; a tuple of one keeps its own."""
    rest = [view.source.segment(each) for i, each in enumerate(node.elts) if i != position]
    if len(rest) == 1:
        return replace(view, node, rest[0])
    start, end = view.source.span(node.elts[position])
    if position + 1 < len(node.elts):
        end = view.source.span(node.elts[position + 1])[0]
    else:
        start = view.source.span(node.elts[position - 1])[1]
    return (Edit(start, end, ""),)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else flat[:37] + "..."
