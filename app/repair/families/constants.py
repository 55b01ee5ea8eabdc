"""Constants: off by one, 0 / 1 / -1, flipped booleans, empty and other strings of the function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView

_MOST_OTHERS = 12


class Constants(Family):
    name = "constant"
    prior = 0.85
    fault = "used the wrong constant"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Constant) or view.source.is_docstring(node):
            return
        if view.source.inside_fstring(node):
            return  # the literal text of an f-string is not an expression
        value = node.value
        old = view.source.segment(node)
        if isinstance(value, bool):
            yield Proposal(replace(view, node, str(not value)), f"replaces {value} by {not value}")
        elif isinstance(value, int):
            parent = view.source.parents.get(node)
            negative = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)
            for new, weight in _integers(value):
                if not (negative and new.startswith("-")) and not (new == "0" and _is_offset(node, parent)):
                    yield Proposal(replace(view, node, new), f"replaces {old} by {new}", weight)
            yield from self._others(node, view, int, 0.45)
        elif isinstance(value, float):
            for new in (value * 10, value / 10, value + 1, 0.0, 1.0):
                yield Proposal(replace(view, node, repr(new)), f"replaces {old} by {new!r}", 0.35)
            yield from self._others(node, view, float, 0.45)
        elif isinstance(value, str):
            yield from self._strings(node, view, value)
        elif value is None and not _is_annotation(node, view):
            for new in ("0", '""', "[]", "{}", "False", "True"):
                yield Proposal(replace(view, node, new), f"replaces None by {new}", 0.35)

    def _strings(self, node: ast.Constant, view: ModuleView, value: str) -> Iterator[Proposal]:
        if "\n" in value or len(value) > 200:
            return
        old = view.source.segment(node)
        variants: list[tuple[str, float]] = []
        if value:
            variants += [("", 0.4)]
        if value in ("", " "):
            variants += [(" " if value == "" else "", 0.6)]
        for variant in (value.strip(), value.lower(), value.upper(), value + " ", " " + value):
            if value.strip() and variant != value:
                variants.append((variant, 0.3))
        opposite = _FLIPPED.get(value)
        if opposite is not None:
            variants.append((opposite, 0.9))
        for new, weight in variants:
            yield Proposal(
                replace(view, node, _quoted(new, old)), f"replaces {old} by {_quoted(new, old)}", weight
            )
        yield from self._others(node, view, str, 0.4)

    def _others(self, node: ast.Constant, view: ModuleView, kind: type, weight: float) -> Iterator[Proposal]:
        """Constants of the same type in the same function, then in the module."""
        function = view.source.function_of(node)
        near = view.constants(function, kind) if function else ()
        old = view.source.segment(node)
        for place, shrink in ((near, 1.0), (view.constants(view.source.tree, kind), 0.6)):
            for other in place[:_MOST_OTHERS]:
                if other != node.value and len(str(other)) < 80:
                    new = repr(other)
                    yield Proposal(replace(view, node, new), f"replaces {old} by {new}", weight * shrink)


_FLIPPED = {
    "r": "rb",
    "rb": "r",
    "w": "a",
    "a": "w",
    "utf-8": "latin-1",
    "latin-1": "utf-8",
    "ascii": "utf-8",
    ",": ";",
    ";": ",",
    "_": "-",
    "-": "_",
    ".": ",",
    ":": "=",
    "=": ":",
    "/": "\\",
    "ignore": "strict",
    "strict": "ignore",
    "left": "right",
    "right": "left",
    "asc": "desc",
    "desc": "asc",
}


def _integers(value: int) -> list[tuple[str, float]]:
    weighted: dict[int, float] = {}
    for new, weight in ((value + 1, 1.0), (value - 1, 1.0), (0, 0.7), (1, 0.7), (-1, 0.5), (2, 0.3)):
        if new != value:
            weighted.setdefault(new, weight)
    if abs(value) > 9:
        weighted.setdefault(value * 10, 0.3)
        if value % 10 == 0:
            weighted.setdefault(value // 10, 0.4)
    if value > 1:
        weighted.setdefault(value * 2, 0.25)
        if value % 2 == 0:
            weighted.setdefault(value // 2, 0.25)
    return [(str(new), weight) for new, weight in weighted.items()]


def _is_offset(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether the constant is added or subtracted: dropping it altogether belongs to the family of bounds."""
    return (
        isinstance(parent, ast.BinOp) and parent.right is node and isinstance(parent.op, (ast.Add, ast.Sub))
    )


def _quoted(value: str, like: str) -> str:
    """A literal in the quotes of the old one."""
    new = repr(value)
    if like.endswith('"') and new.startswith("'") and '"' not in value and "\\" not in new:
        return f'"{new[1:-1]}"'
    return new


def _is_annotation(node: ast.AST, view: ModuleView) -> bool:
    for child, parent in zip([node, *view.source.ancestors(node)], view.source.ancestors(node), strict=False):
        if getattr(parent, "annotation", None) is child or getattr(parent, "returns", None) is child:
            return True
    return False
