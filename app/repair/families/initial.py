"""Initial values: the wrong kind of empty, infinities for extremes, shared objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView


class InitialValues(Family):
    name = "initial-value"
    prior = 0.7
    trust = 0.8
    fault = "started from the wrong value"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        repeated = isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp)
        if repeated or isinstance(node, (ast.Assign, ast.AnnAssign)):
            value = getattr(node, "value", None)
            if isinstance(value, ast.expr):
                yield from self._kinds(value, view)

    def _kinds(self, value: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        text = view.source.segment(value)
        if text in ("[]", "{}", "set()", "dict()", "list()", '""', "''"):
            for new in ("[]", "{}", "set()", '""', "None"):
                if new != text and not (new == '""' and text == "''"):
                    yield Proposal(replace(view, value, new), f"starts with {new} instead of {text}", 0.7)
        elif isinstance(value, ast.Constant) and value.value in (0, -1, 1, None) and value.value is not False:
            for new, weight in (('float("-inf")', 0.7), ('float("inf")', 0.7)):
                yield Proposal(replace(view, value, new), f"starts with {new} instead of {text}", weight)
            for name in view.names_at(value)[:3]:
                if name not in ("self", "cls"):
                    new = f"{name}[0]"
                    yield Proposal(replace(view, value, new), f"starts with {new} instead of {text}", 0.5)
        elif isinstance(value, ast.Call) and text in ('float("inf")', "float('inf')"):
            yield Proposal(replace(view, value, 'float("-inf")'), "starts with minus infinity", 0.8)
        elif text in ('float("-inf")', "float('-inf')"):
            yield Proposal(replace(view, value, 'float("inf")'), "starts with infinity", 0.8)
        elif isinstance(value, ast.Name):
            new = f"list({text})"
            yield Proposal(replace(view, value, new), f"copies {text} instead of sharing it", 0.5)
            yield Proposal(replace(view, value, f"dict({text})"), f"copies {text} instead of sharing it", 0.4)
        elif (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Mult)
            and isinstance(value.left, ast.List)
        ):
            inner, count = value.left, view.source.segment(value.right)
            if len(inner.elts) == 1 and not isinstance(inner.elts[0], ast.Constant):
                new = f"[{view.source.segment(inner.elts[0])} for _ in range({count})]"
                yield Proposal(replace(view, value, new), "makes a new item each time", 1.0)
