"""Arithmetic with a term too many or too few, with an operand out of place, or with the wrong sign."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Edit

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_UNITS: tuple[tuple[str, float], ...] = (
    ("* 100", 0.5),
    ("/ 100", 0.45),
    ("* 60", 0.3),
    ("/ 60", 0.3),
    ("* 2", 0.35),
    ("/ 2", 0.35),
    ("// 2", 0.3),
    ("* 1000", 0.25),
    ("/ 1000", 0.25),
)
_MOST_NAMES = 5
_MOST_SWAPPED = 10


class Terms(Family):
    name = "term"
    prior = 0.45
    trust = 0.7
    fault = "left a term out of a calculation or had one too many"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            if isinstance(node.op, ast.Mod) and isinstance(node.left, (ast.Constant, ast.JoinedStr)):
                return
            yield from self._dropped(node, view)
            if not isinstance(view.source.parents.get(node), ast.BinOp):
                yield from self._swapped(node, view)
            inner = node.left
            if isinstance(inner, ast.List) and len(inner.elts) == 1 and isinstance(node.op, ast.Mult):
                one, two = view.source.segment(inner.elts[0]), view.source.segment(node.right)
                edits = replace(view, inner.elts[0], two) + replace(view, node.right, one)
                yield Proposal(edits, f"repeats {two} instead of {one}", 0.8)
        for value, weight in _values(node):
            if view.source.editable(value) and not isinstance(value, (ast.JoinedStr, ast.Starred)):
                yield from self._added(value, weight, view)
        if isinstance(node, ast.Call):
            yield from self._negated(node, view)

    def _dropped(self, node: ast.BinOp, view: ModuleView) -> Iterator[Proposal]:
        sign = _SIGNS[type(node.op)]
        for kept, gone in ((node.left, node.right), (node.right, node.left)):
            text, lost = enclosed(view, kept), _short(view.source.segment(gone))
            if isinstance(kept, ast.Constant):
                continue
            weight = 0.55 if kept is node.left else 0.4
            if kept is node.right and sign == "-":
                yield Proposal(replace(view, node, f"-{text}"), f"leaves {lost} out", 0.3, Harm.REMOVES)
            weight *= 0.7 if sign in ("+", "-") and isinstance(gone, ast.Constant) else 1.0
            yield Proposal(replace(view, node, text), f"leaves {lost} out", weight, Harm.REMOVES)

    def _swapped(self, node: ast.BinOp, view: ModuleView) -> Iterator[Proposal]:
        """Two operands anywhere in one calculation exchanged."""
        operands = list(_operands(node))
        weight = 0.8 if len(operands) == 2 else 0.5
        pairs = sorted(itertools.combinations(range(len(operands)), 2), key=lambda pair: pair[1] - pair[0])
        for i, j in pairs[:_MOST_SWAPPED]:
            first, second = operands[i], operands[j]
            one, two = enclosed(view, first), enclosed(view, second)
            if one == two or j - i > 2:
                continue
            if len(operands) == 2 and isinstance(node.op, (ast.Mult,)):
                continue
            edits = replace(view, first, two) + replace(view, second, one)
            yield Proposal(
                edits, f"swaps {_short(one)} and {_short(two)}", weight if j == i + 1 else weight * 0.7
            )

    def _added(self, value: ast.expr, weight: float, view: ModuleView) -> Iterator[Proposal]:
        text = enclosed(view, value)
        loose = view.source.segment(value)
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Div, ast.Mod, ast.FloorDiv)):
            text = loose
        numeric = isinstance(value, ast.BinOp) or _arithmetic(value, view)
        for rank, name in enumerate(_numbers(value, view)[:_MOST_NAMES]):
            near = weight * (1.0 - 0.1 * rank)
            additive = loose if isinstance(value, ast.BinOp) else text
            for new, factor in ((f"{additive} + {name}", 1.0), (f"{additive} - {name}", 0.9)):
                yield Proposal(replace(view, value, new), f"makes it {_short(new)}", near * factor)
            for sign, factor in (("*", 0.7), ("/", 0.6), ("%", 0.35)):
                new = f"{text} {sign} {name}"
                yield Proposal(replace(view, value, new), f"makes it {_short(new)}", near * factor)
        if numeric:
            for unit, factor in _UNITS:
                new = f"{text} {unit}"
                yield Proposal(replace(view, value, new), f"makes it {_short(new)}", factor * weight)
        if "timedelta" in view.module_names and isinstance(value, ast.Call):
            for sign in "-+":
                new = f"{text} {sign} timedelta(days=1)"
                yield Proposal(
                    replace(view, value, new), f"a day {'less' if sign == '-' else 'more'}", 0.5 * weight
                )
        if "degrees" in text or "angle" in text:
            new = f"{text} % 360"
            yield Proposal(replace(view, value, new), "stays within a full turn", 0.7 * weight)
        if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            sign = 0.9 if numeric else 0.4
            yield Proposal(replace(view, value, f"-{text}"), "changes the sign", sign * weight)

    def _negated(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        for each in node.args:
            if isinstance(each, (ast.Name, ast.Attribute)) and view.source.editable(each):
                start, _ = view.source.span(each)
                weight = 0.45 if _arithmetic(each, view) else 0.2
                yield Proposal((Edit(start, start, "-"),), "changes the sign of the argument", weight)


def _values(node: ast.AST) -> Iterator[tuple[ast.expr, float]]:
    """Places where a calculated value is used, with how often a term is missing there."""
    if isinstance(node, (ast.Return, ast.Assign, ast.AugAssign)) and node.value is not None:
        if isinstance(node.value, (ast.Name, ast.Attribute, ast.BinOp, ast.Call, ast.Subscript)):
            yield node.value, 0.8
    elif isinstance(node, ast.Call):
        for each in node.args:
            if isinstance(each, (ast.Name, ast.Attribute, ast.BinOp)):
                yield each, 0.55
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        for each in (node.left, *node.comparators):
            if isinstance(each, (ast.Name, ast.Attribute, ast.BinOp)):
                yield each, 0.5
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        for each in (node.slice.lower, node.slice.upper):
            if isinstance(each, (ast.Name, ast.Attribute)):
                yield each, 0.7
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for each in node.elts:
            if isinstance(each, (ast.Name, ast.Attribute)):
                yield each, 0.4
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and isinstance(
        node.elt, (ast.Name, ast.BinOp, ast.Attribute)
    ):
        yield node.elt, 0.4


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        yield from _operands(node.left)
        yield from _operands(node.right)
    else:
        yield node


def _numbers(value: ast.expr, view: ModuleView) -> list[str]:
    """Names and attributes in scope that take part in calculations, unused ones first."""
    own: set[str] = set()
    if not isinstance(value, ast.Call):
        own = {ast.unparse(each) for each in ast.walk(value) if isinstance(each, (ast.Name, ast.Attribute))}
    calculated = view.remembered("calculated", _calculated)
    here = [name for name in view.names_at(value) if name in calculated and name not in own]
    owner = view.source.class_of(value)
    if owner is not None:
        known = {name.removeprefix("self.") for name in calculated}
        own_methods = {method.name for method in view.methods(owner)}
        here += [
            f"self.{name}"
            for name in view.members(owner)
            if name in known and name not in own_methods and f"self.{name}" not in own
        ]
    here += [
        name
        for name in view.module_names
        if name in calculated and name.isupper() and name not in own and name not in here
    ]
    function = view.source.function_of(value)
    counts = view.remembered_of(function, _loads) if function is not None else {}
    return sorted(here, key=lambda name: counts.get(name, 0) if "." not in name else 1)


def _loads(function: ast.AST) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in ast.walk(function):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            found[each.id] = found.get(each.id, 0) + 1
    return found


def _arithmetic(value: ast.expr, view: ModuleView) -> bool:
    return isinstance(value, (ast.Name, ast.Attribute)) and ast.unparse(value) in view.remembered(
        "calculated", _calculated
    )


def _calculated(view: ModuleView) -> frozenset[str]:
    """Names (dotted ones too) that the file uses as numbers."""
    found: set[str] = set()
    for node in ast.walk(view.source.tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            parts = [node.left, node.right]
        elif isinstance(node, ast.AugAssign) and type(node.op) in _SIGNS:
            parts = [node.target, node.value]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign) and _numeric(node.value):
            parts = list(node.targets)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("math."):
            parts = node.args
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        elif isinstance(node, FUNCTIONS):
            arguments = [*node.args.posonlyargs, *node.args.args]
            for argument, default in zip(reversed(arguments), reversed(node.args.defaults), strict=False):
                if _number(default):
                    found.add(argument.arg)
        found.update(ast.unparse(each) for each in parts if isinstance(each, (ast.Name, ast.Attribute)))
    return frozenset(found)


def _numeric(node: ast.expr) -> bool:
    """Whether an expression gives a number as far as its form shows."""
    if isinstance(node, ast.IfExp):
        return _numeric(node.body) or _numeric(node.orelse)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("len", "sum", "abs", "round", "int", "float")
    arithmetic = isinstance(node, ast.BinOp) and isinstance(
        node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)
    )
    return arithmetic or _number(node)


def _number(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    )


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 48 else flat[:45] + "..."
