"""Expressions that stand elsewhere in the project, in place of one that resembles them."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..knowledge import Expression, kind_of, mentions_of
from ..scope import ModuleView
from ..similarity import likeness
from ..source import FUNCTIONS, Edit

_MOST = 8
_LEAST_ALIKE = 0.25
_LEAST_LIKENESS = 0.5
_BUILTINS = frozenset(dir(builtins))


class Borrowed(Family):
    """Replaces an expression by one of the same role whose names are known here, or have a like here."""

    name = "borrowed"
    prior = 0.5
    trust = 0.7
    fault = "calculated something else than its siblings do"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return
        kind = kind_of(node)
        if kind is None or view.source.inside_fstring(node):
            return
        function = view.source.function_of(node)
        name = function.name if function is not None else ""
        old = ast.dump(node)
        count = 0
        known = frozenset((*view.names_at(node), *view.module_names)) | _BUILTINS
        seen = {old}
        for alike, each in view.knowledge.alike(kind, mentions_of(node)):
            if alike < _LEAST_ALIKE or count >= _MOST:
                return
            if each.dump in seen or _dangling(each, view, node):
                continue
            seen.add(each.dump)
            fitted = _fitted(each, known, view, node)
            if fitted is None:
                continue
            text, fit = fitted
            near = 1.0 if each.path == view.source.path and each.function == name else 0.9
            near *= 1.0 if each.path == view.source.path else 0.9
            count += 1
            shown = text if len(text) <= 48 else text[:45] + "..."
            yield Proposal(_placed(node, text, view), f"uses `{shown}` as elsewhere", alike * fit * near)


def _fitted(
    each: Expression, known: frozenset[str], view: ModuleView, node: ast.expr
) -> tuple[str, float] | None:
    """The expression in the names known here, and how well it fits; None when a name has no like."""
    missing = [name for name in each.names if name not in known]
    if not missing:
        return each.text, 1.0
    if len(missing) > 2:
        return None
    text, fit = each.text, 0.8
    here = [name for name in view.names_at(node) if name not in ("self", "cls")]
    for name in missing:
        options = sorted(here, key=lambda other: (-likeness(name, other), other))
        if not options or likeness(name, options[0]) < _LEAST_LIKENESS:
            return None
        fit *= likeness(name, options[0])
        text = re.sub(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=[^=])", options[0], text)
    return text, fit


def _dangling(each: Expression, view: ModuleView, node: ast.expr) -> bool:
    """Whether it needs ``self`` where there is none."""
    if "self" in each.names:
        function = view.source.function_of(node)
        return function is None or "self" not in view.names_at(node)
    return False


def _placed(node: ast.expr, text: str, view: ModuleView) -> tuple[Edit, ...]:
    """In parentheses where the surroundings bind tighter."""
    parent = view.source.parents.get(node)
    loose = isinstance(node, (ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Lambda))
    tight = isinstance(
        parent, (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp)
    )
    if loose and tight and not isinstance(parent, FUNCTIONS):
        start, end = view.source.span(node)
        around = view.source.text[start - 1 : start] + view.source.text[end : end + 1]
        if around != "()":
            text = f"({text})"
    return replace(view, node, text)
