"""Arithmetic operators: ``a + b`` becomes ``a - b``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from ..edits import replace, replace_operator
from ..family import Family, Proposal
from ..scope import ModuleView

_LIKELY = {
    "+": ("-", "*"),
    "-": ("+", "*", "/"),
    "*": ("+", "/", "**", "//", "-"),
    "/": ("*", "-"),
    "//": ("*", "%", "-"),
    "%": ("//", "*", "/"),
    "**": ("*",),
}
_TALLY = 0.3
"""Weight of another operator in a tally, which hardly anybody writes wrong: a test of the largest count
passes with every count negative as well."""
_TEXT: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}


class Arithmetic(Family):
    name = "arithmetic"
    prior = 0.9
    fault = "used the wrong arithmetic operator"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if not isinstance(node.operand, ast.Constant):
                yield Proposal(
                    replace(view, node, view.source.segment(node.operand)), "drops the minus sign", 0.5
                )
            return
        if not isinstance(node, ast.BinOp) or type(node.op) not in _TEXT:
            return
        old = _TEXT[type(node.op)]
        left_text = isinstance(node.left, (ast.Constant, ast.JoinedStr)) and not _is_number(node.left)
        if left_text and old in "%+":
            return  # text formatting and concatenation
        usual = _TALLY if old == "+" and _is_tally(node) else 1.0
        for position, new in enumerate(_LIKELY[old]):
            edits = replace_operator(view, node.left, node.right, new)
            if edits is not None:
                weight = 0.95 if position == 0 else 0.5
                yield Proposal(edits, f"replaces {old} by {new}", usual * weight)
        if old in "-/%" or old in ("//", "**"):
            left, right = view.source.segment(node.left), view.source.segment(node.right)
            if _plain(node.left) and _plain(node.right):
                swapped = replace(view, node.left, right) + replace(view, node.right, left)
                yield Proposal(swapped, f"swaps the operands of {old}", 0.5)


class Bitwise(Family):
    name = "bitwise"
    prior = 0.8
    fault = "used the wrong bitwise operator"

    _likely: ClassVar = {"&": ("|", "-", "^"), "|": ("&", "^"), "^": ("|", "&"), "<<": (">>",), ">>": ("<<",)}
    _text: ClassVar[dict[type[ast.operator], str]] = {
        ast.BitAnd: "&",
        ast.BitOr: "|",
        ast.BitXor: "^",
        ast.LShift: "<<",
        ast.RShift: ">>",
    }

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.BinOp) or type(node.op) not in self._text:
            return
        old = self._text[type(node.op)]
        if old in "^&":
            removed = replace_operator(view, node.left, node.right, "& ~")
            if removed is not None:
                yield Proposal(removed, "takes the bits away", 0.6)
        for new in self._likely[old]:
            edits = replace_operator(view, node.left, node.right, new)
            if edits is not None:
                yield Proposal(edits, f"replaces {old} by {new}", 0.9)


def _is_tally(node: ast.BinOp) -> bool:
    """Whether something is added to what a mapping holds so far: ``counts.get(word, 0) + 1``."""
    left = node.left
    return (
        isinstance(left, ast.Call)
        and isinstance(left.func, ast.Attribute)
        and left.func.attr == "get"
        and len(left.args) == 2
        and isinstance(left.args[1], ast.Constant)
        and left.args[1].value == 0
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex))


def _plain(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript))
