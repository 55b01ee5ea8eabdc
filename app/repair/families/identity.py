"""Identity against equality: ``is`` becomes ``==`` and back; truth tests against ``is None``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace, replace_operator
from ..family import Family, Proposal
from ..scope import ModuleView

_NEW: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Is: ("==", "is not"),
    ast.IsNot: ("!=", "is"),
    ast.Eq: ("is",),
    ast.NotEq: ("is not",),
}
_OLD: dict[type[ast.cmpop], str] = {ast.Is: "is", ast.IsNot: "is not", ast.Eq: "==", ast.NotEq: "!="}


class Identity(Family):
    name = "identity"
    prior = 0.85
    fault = "mixed up identity, equality and truth"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _NEW:
            yield from self._operators(node, view)
        test = getattr(node, "test", None)
        if isinstance(test, (ast.Name, ast.Attribute)) and view.source.editable(test):
            yield Proposal(
                replace(view, test, f"{view.source.segment(test)} is not None"), "asks for None only", 0.9
            )
        for clause in getattr(node, "ifs", None) or (node.values if isinstance(node, ast.BoolOp) else ()):
            if isinstance(clause, (ast.Name, ast.Attribute)) and view.source.editable(clause):
                text = f"{view.source.segment(clause)} is not None"
                yield Proposal(replace(view, clause, text), "asks for None only", 0.7)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from self._negated(node, view)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
            first, second = node.values
            if isinstance(first, (ast.Name, ast.Attribute)):
                name = view.source.segment(first)
                text = f"({name} if {name} is not None else {enclosed(view, second)})"
                yield Proposal(replace(view, node, text), "falls back for None only", 0.7)

    def _negated(self, node: ast.UnaryOp, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node.operand, (ast.Name, ast.Attribute)):
            text = f"{view.source.segment(node.operand)} is None"
            yield Proposal(replace(view, node, text), "asks for None only", 0.9)
            text = f"{view.source.segment(node.operand)} is False"
            yield Proposal(replace(view, node, text), "asks for False only", 0.4)

    def _operators(self, node: ast.Compare, view: ModuleView) -> Iterator[Proposal]:
        operator, right = node.ops[0], node.comparators[0]
        singleton = isinstance(right, ast.Constant) and right.value in (None, True, False)
        for new in _NEW[type(operator)]:
            if new.startswith("is") and isinstance(operator, (ast.Eq, ast.NotEq)) and not singleton:
                continue
            edits = replace_operator(view, node.left, right, new)
            if edits is not None:
                yield Proposal(edits, f"replaces {_OLD[type(operator)]} by {new}")
        if isinstance(right, ast.Constant) and right.value is None:
            text = view.source.segment(node.left)
            if isinstance(operator, ast.Is):
                yield Proposal(
                    replace(view, node, f"not {enclosed(view, node.left)}"), "asks for emptiness too", 0.8
                )
                yield Proposal(replace(view, node, f"None in {text}"), "asks for a None inside", 0.35)
            elif isinstance(operator, ast.IsNot):
                yield Proposal(replace(view, node, text), "asks for emptiness too", 0.8)
                yield Proposal(replace(view, node, f"None not in {text}"), "asks for a None inside", 0.35)
