"""Closures made in a loop that all see the loop's last value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, LOOPS, Edit


class LateBinding(Family):
    name = "late-binding"
    prior = 1.0
    fault = "made functions that all see the last value of a loop variable"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, (ast.Lambda, *FUNCTIONS)):
            return
        changing = _changing(node, view)
        taken = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        names = [name for name in changing if name in used and name not in taken]
        if not names or node.args.kwarg or node.args.kwonlyargs or node.args.vararg:
            return
        for chosen in dict.fromkeys([tuple(names), *((name,) for name in names)]):
            text = ", ".join(f"{name}={name}" for name in chosen)
            edit = _added(node, text, view)
            if edit is not None:
                yield Proposal((edit,), f"binds {' and '.join(chosen)} when the function is made")


def _changing(node: ast.AST, view: ModuleView) -> list[str]:
    """Variables of the loops and comprehensions around a function, up to the next function."""
    found: dict[str, None] = {}
    for ancestor in view.source.ancestors(node):
        if isinstance(ancestor, (ast.Lambda, *FUNCTIONS, ast.ClassDef)):
            break
        targets: list[ast.AST] = []
        if isinstance(ancestor, LOOPS):
            targets = [each for each in ast.walk(ancestor) if isinstance(each, ast.Name)]
        elif isinstance(ancestor, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            targets = [each for one in ancestor.generators for each in ast.walk(one.target)]
        for each in targets:
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                found[each.id] = None
    return list(found)


def _added(
    node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, text: str, view: ModuleView
) -> Edit | None:
    """Parameters with defaults after those that are there."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    if arguments:
        last: ast.AST = node.args.defaults[-1] if node.args.defaults else arguments[-1]
        end = view.source.span(last)[1]
        return Edit(end, end, f", {text}")
    start, end = view.source.span(node)
    if isinstance(node, ast.Lambda):
        at = start + len("lambda")
        return Edit(at, at, f" {text}")
    opening = view.source.text.find("(", start, end)
    return None if opening < 0 else Edit(opening + 1, opening + 1, text)
