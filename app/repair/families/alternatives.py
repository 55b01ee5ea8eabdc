"""Answers for a missing value: ``x or default``, ``x if x else default``, and such that are superfluous."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView

_DEFAULTS = ("[]", "{}", '""', "0", "()", "None")
_MOST_SUBJECTS = 3


class Alternatives(Family):
    name = "alternative"
    prior = 0.45
    trust = 0.7
    harm = Harm.LOOSENS
    fault = "had no answer for a missing value"
    boosts = {"TypeError": 1.4, "AttributeError": 1.4, "ZeroDivisionError": 1.5, "IndexError": 1.3}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.IfExp):
            for kept, weight in ((node.body, 0.8), (node.orelse, 0.6)):
                text = enclosed(view, kept)
                yield Proposal(
                    replace(view, node, text), f"always takes {_short(text)}", weight, Harm.REMOVES
                )
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and _chooses(node, view):
            first, last = view.source.span(node.values[0])[0], view.source.span(node.values[-2])[1]
            text = view.source.text[first:last]
            yield Proposal(replace(view, node, text), f"always takes {_short(text)}", 0.5, Harm.REMOVES)
        for value, weight in _places(node):
            if view.source.editable(value):
                yield from self._added(value, weight, view)

    def _added(self, value: ast.expr, weight: float, view: ModuleView) -> Iterator[Proposal]:
        text = view.source.segment(value)
        if "\n" in text or isinstance(value, (ast.IfExp, ast.Constant, ast.Lambda, ast.JoinedStr)):
            return
        parent = view.source.parents.get(value)
        tight = isinstance(parent, (ast.BinOp, ast.Compare, ast.Attribute, ast.Subscript, ast.comprehension))
        if isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            for rank, default in enumerate(_DEFAULTS[:5]):
                new = f"{text} or {default}"
                edits = replace(view, value, f"({new})" if tight else new)
                yield Proposal(edits, f"takes {default} when there is none", weight * (1.0 - 0.1 * rank))
        for subject in _subjects(value, view):
            for rank, default in enumerate(_defaults(value)):
                new = f"{text} if {subject} else {default}"
                edits = replace(view, value, f"({new})" if tight or isinstance(parent, ast.BinOp) else new)
                said = f"takes {default} without {_short(subject)}"
                yield Proposal(edits, said, 0.7 * weight * (1.0 - 0.12 * rank))


def _chooses(node: ast.BoolOp, view: ModuleView) -> bool:
    """Whether ``or`` picks a value rather than joining conditions."""
    parent = view.source.parents.get(node)
    tested = isinstance(parent, (ast.If, ast.While, ast.IfExp)) and parent.test is node
    return not tested and not isinstance(node.values[0], ast.Compare)


def _places(node: ast.AST) -> Iterator[tuple[ast.expr, float]]:
    if isinstance(node, (ast.Return, ast.Assign)) and node.value is not None:
        yield node.value, 0.8
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.iter, 0.7
    elif isinstance(node, ast.Call):
        yield from (
            (each, 0.5) for each in node.args if isinstance(each, (ast.Name, ast.Attribute, ast.Call))
        )
    elif isinstance(node, ast.BinOp):
        kinds = (ast.List, ast.Call, ast.Name, ast.Attribute)
        yield from ((each, 0.6) for each in (node.left, node.right) if isinstance(each, kinds))


def _subjects(value: ast.expr, view: ModuleView) -> list[str]:
    """Variables and attributes in the value that may be missing, empty or zero; divisors first."""
    found: dict[str, None] = {}
    for each in ast.walk(value):
        if isinstance(each, ast.BinOp) and isinstance(each.op, (ast.Div, ast.FloorDiv, ast.Mod)):
            divisor = isinstance(each.right, (ast.Name, ast.Attribute, ast.Call))
            if divisor:
                found[view.source.segment(each.right)] = None
    for each in ast.walk(value):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in ("self", "cls"):
            if each.id not in view.called_names and each.id not in view.module_names:
                found[each.id] = None
        elif (
            isinstance(each, ast.Attribute)
            and getattr(each.value, "id", "") == "self"
            and (each.attr not in view.called_attributes)
        ):
            found[f"self.{each.attr}"] = None
    return [each for each in found if "\n" not in each][:_MOST_SUBJECTS]


def _defaults(value: ast.expr) -> tuple[str, ...]:
    """Like the value first."""
    if isinstance(value, (ast.List, ast.ListComp)):
        return ("[]",)
    if isinstance(value, (ast.Dict, ast.DictComp)):
        return ("{}",)
    if isinstance(value, (ast.Set, ast.SetComp)):
        return ("set()",)
    if isinstance(value, ast.BinOp):
        return ("0", "0.0", '""', "[]", "None")
    return ("None", "0", '""', "[]", "{}")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else flat[:37] + "..."
