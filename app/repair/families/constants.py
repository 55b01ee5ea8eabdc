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
        yield from self._named(node, view)
        if isinstance(value, bool):
            yield Proposal(replace(view, node, str(not value)), f"replaces {value} by {not value}")
        elif isinstance(value, int):
            parent = view.source.parents.get(node)
            negative = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)
            for new, weight in _integers(value):
                if not (negative and new.startswith("-")) and not (new == "0" and _is_offset(node, parent)):
                    yield Proposal(replace(view, node, new), f"replaces {old} by {new}", weight)
            for new in _RELATED.get(value, ()):
                yield Proposal(replace(view, node, str(new)), f"replaces {old} by {new}", 0.6)
            if value in (0, 1) and isinstance(parent, (ast.Call, ast.List, ast.keyword)):
                for new in ('float("inf")', 'float("-inf")', "None"):
                    yield Proposal(replace(view, node, new), f"replaces {old} by {new}", 0.3)
            yield from self._others(node, view, int, 0.45)
        elif isinstance(value, float):
            rounder = (
                float(f"{each:.12g}") for each in (value * 10, value / 10, value + 1, value - 1, value * 2)
            )
            for new in dict.fromkeys((*rounder, 0.0, 1.0, -value, float(f"{1 - value:.12g}"))):
                if new == value:
                    continue
                yield Proposal(replace(view, node, repr(new)), f"replaces {old} by {new!r}", 0.35)
            yield from self._others(node, view, float, 0.45)
        elif isinstance(value, str):
            yield from self._strings(node, view, value)
        elif value is None and not _is_annotation(node, view):
            for new in ("0", '""', "[]", "{}", "False", "True"):
                yield Proposal(replace(view, node, new), f"replaces None by {new}", 0.35)

    def _named(self, node: ast.Constant, view: ModuleView) -> Iterator[Proposal]:
        """A variable or a named constant where a literal stands."""
        parent = view.source.parents.get(node)
        places = (ast.Subscript, ast.Slice, ast.Call, ast.Compare, ast.BinOp, ast.keyword, ast.UnaryOp)
        value = node.value
        if not isinstance(parent, (*places, ast.Return, ast.Tuple, ast.Assign)) or isinstance(value, bool):
            return
        if isinstance(view.source.parents.get(parent), ast.AnnAssign) or _is_annotation(node, view):
            return
        if view.source.function_of(node) is None:
            return
        inside = 0.5 if isinstance(parent, places) else 0.3
        old = view.source.segment(node)
        taken = {each.id for each in ast.walk(parent) if isinstance(each, ast.Name)}
        keyword = parent.arg if isinstance(parent, ast.keyword) else None
        unused = view.unused_names(node)
        names = [
            name
            for name in view.names_at(node)
            if name not in ("self", "cls") and name not in view.called_names
        ]
        names.sort(key=lambda name: (name != keyword, name not in unused, name in taken))
        for rank, name in enumerate(names[:_MOST_NAMED]):
            weight = 1.0 if name == keyword or name in unused else inside * (0.8 - 0.08 * rank)
            yield Proposal(replace(view, node, name), f"replaces {old} by {name}", weight)
            if name in unused and isinstance(value, (str, int, float)) and not isinstance(parent, ast.BinOp):
                yield Proposal(replace(view, node, f"{name} + {old}"), f"puts {name} before {old}", 0.7)
        kinds = view.remembered("named constants", _named_constants)
        for name in [name for name, kind in kinds.items() if kind is type(value)][:_MOST_NAMED]:
            yield Proposal(replace(view, node, name), f"replaces {old} by {name}", inside * 0.8)

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
        for rank, opposite in enumerate(_FLIPPED.get(value, ())):
            variants.append((opposite, 0.9 - 0.1 * rank))
        for other in view.remembered("strings", _strings_by_role).get(_role(node, view), ()):
            if other != value and value:
                variants.append((other, 0.65))
        statement = view.source.statement_of(node)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            called = statement.targets[0].id
            if called != value and value.isidentifier() and _role(node, view) in ("compared", "key"):
                variants.append((called, 0.7))  # what is read is often named like what it is read from
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


_FLIPPED: dict[str, tuple[str, ...]] = {
    "r": ("rb", "r+"),
    "rb": ("r",),
    "w": ("a", "wb"),
    "wb": ("w",),
    "a": ("w",),
    "utf-8": ("utf-8-sig", "latin-1"),
    "latin-1": ("utf-8",),
    "ascii": ("utf-8", "latin-1"),
    "utf8": ("utf-8-sig", "latin-1"),
    "ignore": ("strict", "replace"),
    "strict": ("ignore", "replace"),
    ",": (";", ", ", " ", "."),
    ", ": (",", "; ", " ", "\n"),
    ";": (",", ":"),
    "_": ("-", " ", "."),
    "-": ("_", " ", "--", "=", "+", ":"),
    "--": ("-",),
    "+": ("-", " "),
    ".": (",", "/", ":", "-"),
    ":": ("=", ": ", ";", "."),
    ": ": (":", "= "),
    "=": (":", "==", "-"),
    "/": ("\\", ".", "//"),
    "//": ("/",),
    "": (" ", "/", "\n", ",", "-", "0"),
    " ": ("", "_", "-", ",", "\n", "  "),
    "\n": ("", " ", "\r\n", "\n\n"),
    "\r\n": ("\n",),
    "\r": ("\n", "\r\n"),
    "\t": (" ", ","),
    "left": ("right",),
    "right": ("left",),
    "asc": ("desc",),
    "desc": ("asc",),
    "start": ("end",),
    "end": ("start",),
    "up": ("down",),
    "down": ("up",),
    "true": ("false", "True"),
    "false": ("true", "False"),
    "yes": ("no",),
    "no": ("yes",),
    "on": ("off",),
    "off": ("on",),
    "in": ("out",),
    "out": ("in",),
    "min": ("max",),
    "max": ("min",),
    "first": ("last",),
    "last": ("first",),
    "%d": ("%s",),
    "%m": ("%M",),
    "%M": ("%m",),
}
_RELATED: dict[int, tuple[int, ...]] = {
    24: (60, 12, 7),
    60: (3600, 24, 100),
    3600: (60, 86400),
    86400: (3600,),
    100: (1000, 60),
    1000: (1024, 100, 60),
    1024: (1000,),
    7: (5, 24),
    12: (24,),
    28: (29, 30, 31),
    30: (31, 28),
    31: (30,),
    360: (365, 180),
    365: (366, 360),
    366: (365,),
    180: (360, 90),
    255: (256,),
    256: (255,),
    4: (400, 100),
    400: (100, 4),
    10: (100, 16),
    16: (10, 8),
    8: (10, 16),
}
_MOST_NAMED = 5
_MOST_ROLE = 10


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


def _named_constants(view: ModuleView) -> dict[str, type]:
    """Names in capitals at module level that stand for a literal, with its type."""
    return {
        target.id: type(statement.value.value)
        for statement in view.source.tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def _role(node: ast.Constant, view: ModuleView) -> str:
    """What a string is used as: a key, something compared with, an argument of a function, an item."""
    parent = view.source.parents.get(node)
    if isinstance(parent, ast.Subscript):
        return "key"
    if isinstance(parent, ast.Dict):
        return "key" if node in parent.keys else "value"
    if isinstance(parent, ast.Compare):
        return "compared"
    if isinstance(parent, ast.Call):
        name = getattr(parent.func, "attr", getattr(parent.func, "id", ""))
        return (
            "key"
            if name in ("get", "pop", "setdefault") and parent.args[:1] == [node]
            else f"argument of {name}"
        )
    if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
        return "item"
    return "other"


def _strings_by_role(view: ModuleView) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(view.source.tree):
        if not isinstance(node, ast.Constant) or view.source.is_docstring(node):
            continue
        if isinstance(node.value, str) and len(node.value) < 40 and not view.source.inside_fstring(node):
            found.setdefault(_role(node, view), {})[node.value] = None
    return {role: tuple(texts)[:_MOST_ROLE] for role, texts in found.items()}
