"""Conditions made stronger or weaker: one clause dropped, or one added from values in scope."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

_MOST_NAMES = 6


class Conditions(Family):
    name = "condition"
    prior = 0.6
    trust = 0.75
    fault = "tested too much or too little in a condition"
    boosts = {"TypeError": 1.3, "AttributeError": 1.3, "IndexError": 1.2, "KeyError": 1.2}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.BoolOp):
            yield from self._drops(node, view)
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield from self._additions(node.test, node, view)
        elif isinstance(node, ast.comprehension):
            for each in node.ifs:
                yield from self._additions(each, node.target, view)
        elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Compare, ast.BoolOp)):
            yield from self._additions(node.value, node, view)

    def _drops(self, node: ast.BoolOp, view: ModuleView) -> Iterator[Proposal]:
        for position, value in enumerate(node.values):
            rest = node.values[:position] + node.values[position + 1 :]
            first, last = rest[0], rest[-1]
            if position in (0, len(node.values) - 1):
                start, end = view.source.span(node)
                text = view.source.text[view.source.span(first)[0] : view.source.span(last)[1]]
                if len(rest) == 1:
                    text = (
                        enclosed(view, first) if isinstance(first, ast.BoolOp) else view.source.segment(first)
                    )
                edits = (Edit(start, end, text),)
            else:
                before = view.source.span(node.values[position - 1])[1]
                edits = (Edit(before, view.source.span(value)[1], ""),)
            clause = " ".join(view.source.segment(value).split())
            yield Proposal(edits, f"drops the clause `{clause}`", 0.8, Harm.REMOVES)

    def _additions(self, test: ast.expr, place: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not view.source.editable(test):
            return
        old = view.source.segment(test)
        if isinstance(test, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)):
            old = f"({old})"
        used = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
        called = view.called_names
        names = [name for name in view.names_at(place) if name not in ("self", "cls") and name not in called]
        names.sort(key=lambda name: name not in used)
        for rank, name in enumerate(names[:_MOST_NAMES]):
            weight = 0.8 - 0.08 * rank
            for clause, first in ((f"{name} is not None", True), (name, True), (f"not {name}", False)):
                text = f"{clause} and {old}" if first else f"{old} and {clause}"
                yield Proposal(replace(view, test, text), f"also asks `{clause}`", weight)
            for clause in (f"{name} is None", f"not {name}"):
                text = f"{clause} or {old}"
                yield Proposal(replace(view, test, text), f"also accepts `{clause}`", weight * 0.9)
