"""Parentheses: the same operands and operators, grouped differently."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..edits import enclosed, replace
from ..family import Family, Proposal
from ..scope import ModuleView

_ARITHMETIC: dict[type[ast.AST], tuple[str, int]] = {
    ast.BitOr: ("|", 1),
    ast.BitXor: ("^", 2),
    ast.BitAnd: ("&", 3),
    ast.LShift: ("<<", 4),
    ast.RShift: (">>", 4),
    ast.Add: ("+", 5),
    ast.Sub: ("-", 5),
    ast.Mult: ("*", 6),
    ast.Div: ("/", 6),
    ast.FloorDiv: ("//", 6),
    ast.Mod: ("%", 6),
    ast.Pow: ("**", 8),
}
_ASSOCIATIVE = frozenset("+*&|^")
_MOST_OPERANDS = 6
_MOST = 30


@dataclass(frozen=True)
class _Leaf:
    text: str


@dataclass(frozen=True)
class _Pair:
    operator: str
    level: int
    left: _Tree
    right: _Tree


_Tree = _Leaf | _Pair


class Precedence(Family):
    name = "precedence"
    prior = 0.8
    fault = "grouped its operands wrongly"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        parent = view.source.parents.get(node)
        if isinstance(node, ast.BinOp) and not isinstance(parent, ast.BinOp):
            yield from self._groupings(node, view)
        elif isinstance(node, ast.BoolOp) and not isinstance(parent, ast.BoolOp):
            yield from self._groupings(node, view)
            yield from self._spread(node, view)
        elif isinstance(node, ast.UnaryOp):
            yield from self._unary(node, view)
        elif isinstance(node, ast.IfExp):
            yield from self._conditional(node, view)

    def _groupings(self, node: ast.BinOp | ast.BoolOp, view: ModuleView) -> Iterator[Proposal]:
        if "\n" in view.source.segment(node):
            return  # comments may lie between the operands
        leaves: list[_Leaf] = []
        operators: list[tuple[str, int]] = []
        now = _flatten(node, view, leaves, operators)
        if now is None or not 3 <= len(leaves) <= _MOST_OPERANDS:
            return
        if len(set(operators)) == 1 and not _strict(operators):
            return
        known = _spans(now)
        seen = {_shape(now)}
        ranked: list[tuple[int, int, _Tree]] = []
        for order, tree in enumerate(_trees(leaves, operators)):
            shape = _shape(tree)
            if shape not in seen:
                seen.add(shape)
                ranked.append((len(_spans(tree) - known), order, tree))
        ranked.sort(key=lambda each: each[:2])
        for distance, _, tree in ranked[:_MOST]:
            text = _rendered(tree, 0)
            yield Proposal(replace(view, node, text), f"groups it as `{text}`", 1.0 / distance)

    def _spread(self, node: ast.BoolOp, view: ModuleView) -> Iterator[Proposal]:
        """``not a and b``: the negation of both, which is ``not (a and b)``."""
        first = node.values[0]
        if isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.Not):
            start, _ = view.source.span(first.operand)
            inside = view.source.text[start : view.source.span(node)[1]]
            if inside.count("(") == inside.count(")"):
                yield Proposal(replace(view, node, f"not ({inside})"), "negates the whole condition", 0.7)

    def _unary(self, node: ast.UnaryOp, view: ModuleView) -> Iterator[Proposal]:
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.BoolOp):
            text = f"not {view.source.segment(inner)}"
            yield Proposal(replace(view, node, f"({text})"), "negates the first condition only", 0.7)
        if isinstance(node.op, ast.USub) and isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Pow):
            text = f"(-{enclosed(view, inner.left)}) ** {enclosed(view, inner.right)}"
            yield Proposal(replace(view, node, text), "raises the negative number", 0.6)

    def _conditional(self, node: ast.IfExp, view: ModuleView) -> Iterator[Proposal]:
        """``a + b if c else d`` and ``a + (b if c else d)``."""
        test, other = view.source.segment(node.test), view.source.segment(node.orelse)
        if isinstance(node.body, ast.BinOp) and type(node.body.op) in _ARITHMETIC:
            sign = _ARITHMETIC[type(node.body.op)][0]
            left, right = enclosed(view, node.body.left), view.source.segment(node.body.right)
            text = f"{left} {sign} ({right} if {test} else {other})"
            yield Proposal(replace(view, node, text), f"chooses only what comes after {sign}", 0.8)
        if isinstance(node.orelse, ast.BinOp) and type(node.orelse.op) in _ARITHMETIC:
            sign = _ARITHMETIC[type(node.orelse.op)][0]
            body, middle = view.source.segment(node.body), view.source.segment(node.orelse.left)
            right = enclosed(view, node.orelse.right)
            text = f"({body} if {test} else {middle}) {sign} {right}"
            yield Proposal(replace(view, node, text), f"chooses only what comes before {sign}", 0.8)


def _strict(operators: Sequence[tuple[str, int]]) -> bool:
    """Whether grouping matters although all operators are the same."""
    return operators[0][0] not in _ASSOCIATIVE and operators[0][0] not in ("and", "or")


def _flatten(
    node: ast.expr, view: ModuleView, leaves: list[_Leaf], operators: list[tuple[str, int]]
) -> _Tree | None:
    """The tree as it stands; fills its operands and operators in order."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _formats(node):
        left = _flatten(node.left, view, leaves, operators)
        operators.append(_ARITHMETIC[type(node.op)])
        sign, level = operators[-1]
        right = _flatten(node.right, view, leaves, operators)
        return None if left is None or right is None else _Pair(sign, level, left, right)
    if isinstance(node, ast.BoolOp):
        sign, level = ("and", -1) if isinstance(node.op, ast.And) else ("or", -2)
        tree = _flatten(node.values[0], view, leaves, operators)
        for value in node.values[1:]:
            operators.append((sign, level))
            right = _flatten(value, view, leaves, operators)
            if tree is None or right is None:
                return None
            tree = _Pair(sign, level, tree, right)
        return tree
    plain = isinstance(node, (ast.Compare, ast.UnaryOp)) and not isinstance(node, ast.BinOp)
    in_boolean = plain and isinstance(view.source.parents.get(node), ast.BoolOp)
    leaf = _Leaf(view.source.segment(node) if in_boolean else enclosed(view, node))
    leaves.append(leaf)
    return leaf


def _formats(node: ast.BinOp) -> bool:
    return (
        isinstance(node.op, ast.Mod)
        and isinstance(node.left, (ast.JoinedStr, ast.Constant))
        and isinstance(getattr(node.left, "value", ""), str)
    )


def _trees(leaves: Sequence[_Leaf], operators: Sequence[tuple[str, int]]) -> Iterator[_Tree]:
    if len(leaves) == 1:
        yield leaves[0]
        return
    for split, (sign, level) in enumerate(operators):
        for left in _trees(leaves[: split + 1], operators[:split]):
            for right in _trees(leaves[split + 1 :], operators[split + 1 :]):
                yield _Pair(sign, level, left, right)


def _spans(tree: _Tree) -> frozenset[tuple[int, int]]:
    """Which operands each pair covers."""
    found: set[tuple[int, int]] = set()

    def visit(each: _Tree, start: int) -> int:
        if isinstance(each, _Leaf):
            return start + 1
        end = visit(each.right, visit(each.left, start))
        found.add((start, end))
        return end

    visit(tree, 0)
    return frozenset(found)


def _shape(tree: _Tree) -> str:
    """Equal for groupings that cannot differ in value: chains of one associative operator are flat."""
    if isinstance(tree, _Leaf):
        return tree.text
    sign = tree.operator
    if sign in _ASSOCIATIVE or sign in ("and", "or"):
        return f"({f' {sign} '.join(_chain(tree, sign))})"
    return f"({_shape(tree.left)} {sign} {_shape(tree.right)})"


def _chain(tree: _Tree, sign: str) -> list[str]:
    if isinstance(tree, _Pair) and tree.operator == sign:
        return [*_chain(tree.left, sign), *_chain(tree.right, sign)]
    return [_shape(tree)]


def _rendered(tree: _Tree, level: int) -> str:
    """With no more parentheses than needed inside an operator of a level."""
    if isinstance(tree, _Leaf):
        return tree.text
    power = tree.operator == "**"
    left = _rendered(tree.left, tree.level + 1 if power else tree.level)
    flat = tree.operator in ("and", "or")
    tighter = tree.level if power or flat else tree.level + 1
    text = f"{left} {tree.operator} {_rendered(tree.right, tighter)}"
    return f"({text})" if tree.level < level and level != 0 else text
