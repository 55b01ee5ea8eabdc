"""Augmented assignment: the wrong operator, a forgotten or a superfluous one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace_operator
from ..family import Family, Proposal
from ..scope import ModuleView

_TEXT: dict[type[ast.operator], str] = {
    ast.Add: "+=",
    ast.Sub: "-=",
    ast.Mult: "*=",
    ast.Div: "/=",
    ast.FloorDiv: "//=",
    ast.Mod: "%=",
    ast.BitOr: "|=",
    ast.BitAnd: "&=",
    ast.BitXor: "^=",
    ast.LShift: "<<=",
    ast.RShift: ">>=",
    ast.Pow: "**=",
}
_LIKELY = {
    "+=": ("-=", "=", "*=", "|="),
    "-=": ("+=", "="),
    "*=": ("+=", "/=", "**=", "//="),
    "/=": ("*=", "//=", "-="),
    "//=": ("/=", "*=", "%="),
    "%=": ("//=", "/="),
    "|=": ("&=", "^=", "="),
    "&=": ("|=", "^="),
    "^=": ("|=", "&="),
    "<<=": (">>=",),
    ">>=": ("<<=",),
    "**=": ("*=",),
}


class Augmented(Family):
    name = "augmented-assignment"
    prior = 0.85
    fault = "updated a variable with the wrong operator"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.AugAssign):
            old = _TEXT.get(type(node.op), "")
            for rank, new in enumerate(_LIKELY.get(old, ())):
                edits = replace_operator(view, node.target, node.value, new)
                if edits is not None:
                    yield Proposal(edits, f"replaces {old} by {new}", 1.0 - 0.25 * rank)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and view.source.function_of(node):
            target = node.targets[0]
            if not isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
                return
            looping = view.source.loop_of(node) is not None
            for new, weight in (("+=", 0.7), ("-=", 0.4), ("|=", 0.2)):
                edits = replace_operator(view, target, node.value, new)
                if edits is not None:
                    yield Proposal(edits, f"replaces = by {new}", weight if looping else weight * 0.5)
