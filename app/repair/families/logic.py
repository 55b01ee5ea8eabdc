"""Boolean logic: ``and`` / ``or``, and negation of conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit


class BooleanOperator(Family):
    name = "boolean-operator"
    prior = 0.95
    fault = "joined its conditions with the wrong boolean operator"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.BoolOp):
            return
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        edits: list[Edit] = []
        for left, right in zip(node.values, node.values[1:], strict=False):
            span = view.source.operator_between(left, right)
            if span is None:
                return
            edits.append(Edit(*span, new))
        yield Proposal(tuple(edits), f"replaces {old} by {new}")
        if len(edits) > 1:
            for edit in edits:
                yield Proposal((edit,), f"replaces one {old} by {new}", 0.6)


class TruthComparison(Family):
    name = "truth-comparison"
    prior = 0.5
    trust = 0.8
    fault = "should have compared two truth values"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.BoolOp) or len(node.values) != 2:
            return
        sides = [
            each.operand if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) else each
            for each in node.values
        ]
        if not all(isinstance(each, (ast.Name, ast.Attribute, ast.Call, ast.Compare)) for each in sides):
            return
        one, other = (view.source.segment(each) for each in sides)
        if any(isinstance(each, ast.Compare) for each in sides):
            one, other = f"({one})", f"({other})"
        for operator, weight in (("==", 1.0), ("!=", 0.95)):
            text = f"{one} {operator} {other}"
            yield Proposal(replace(view, node, text), f"asks whether {text}", weight)


class Negation(Family):
    name = "negation"
    prior = 0.85
    trust = 0.75
    fault = "tested the opposite condition"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Proposal(replace(view, node, enclosed(view, node.operand)), "drops the negation")
            return
        for condition in _conditions(node):
            if not view.source.editable(condition) or _negated_elsewhere(condition):
                continue
            weight = 0.9 if not isinstance(condition, ast.BoolOp) else 0.5
            yield Proposal(
                replace(view, condition, f"not {enclosed(view, condition)}"), "negates the condition", weight
            )


_ASKED = (ast.Call, ast.Name, ast.Attribute, ast.BoolOp)


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        yield node.test
    elif isinstance(node, ast.comprehension):
        yield from node.ifs
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and isinstance(node.elt, _ASKED):
        yield node.elt
    elif isinstance(node, ast.Lambda) and isinstance(node.body, _ASKED):
        yield node.body
    elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Call, ast.Name, ast.Attribute)):
        yield node.value


def _negated_elsewhere(condition: ast.expr) -> bool:
    """Comparisons have a family of their own; a negation is dropped, not doubled."""
    single = isinstance(condition, ast.Compare) and len(condition.ops) == 1
    return single or (isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not))
