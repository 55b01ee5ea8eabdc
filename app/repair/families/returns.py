"""Returns: a missing one, the wrong value, and generators that return."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import insert_after, replace
from ..exits import exits
from ..facts import own_returns
from ..family import Family, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Edit, Function

_MOST_NAMES = 5
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Returns(Family):
    name = "return"
    prior = 0.75
    trust = 0.7
    fault = "did not return what it should"
    boosts = {"TypeError": 1.3, "AttributeError": 1.2}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Expr):
            yield from self._discarded(node, view)
        if isinstance(node, ast.Return):
            yield from self._values(node, view)
        if isinstance(node, ast.stmt) and not isinstance(node, _LEAVING):
            yield from self._missing(node, view)

    def _discarded(self, node: ast.Expr, view: ModuleView) -> Iterator[Proposal]:
        if view.source.is_docstring(node.value) or view.source.function_of(node) is None:
            return
        if isinstance(node.value, (ast.Yield, ast.YieldFrom)):
            return
        start, _ = view.source.span(node)
        yield Proposal((Edit(start, start, "return "),), "returns the value instead of discarding it")

    def _values(self, node: ast.Return, view: ModuleView) -> Iterator[Proposal]:
        function = view.source.function_of(node)
        if function is None:
            return
        start, end = view.source.span(node)
        if node.value is None:
            for rank, name in enumerate(_results(function, view)):
                yield Proposal((Edit(end, end, f" {name}"),), f"returns {name}", 0.8 - 0.1 * rank)
            for value in ("False", "True", "[]", "0", '""'):
                yield Proposal((Edit(end, end, f" {value}"),), f"returns {value}", 0.4)
            return
        if not isinstance(node.value, (ast.Name, ast.Constant)):
            for rank, name in enumerate(_results(function, view)):
                yield Proposal(replace(view, node.value, name), f"returns {name}", 0.35 - 0.04 * rank)
        elif isinstance(node.value, ast.Constant):
            for rank, name in enumerate(_results(function, view)):
                yield Proposal(replace(view, node.value, name), f"returns {name}", 0.6 - 0.08 * rank)
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            one, two = (view.source.segment(each) for each in node.value.elts)
            edits = replace(view, node.value.elts[0], two) + replace(view, node.value.elts[1], one)
            yield Proposal(edits, "swaps the returned values", 0.8)
        keyword = Edit(start, start + len("return"), "yield")
        yield Proposal((keyword,), "yields instead of returning", 0.4)

    def _missing(self, node: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """A return after the last statement of a block."""
        function = view.source.function_of(node)
        block = view.source.block_of(node)
        if function is None or block is None or block[-1] is not node:
            return
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and block is not function.body:
            return
        outermost = block is function.body
        base = 1.0 if outermost else 0.6
        for rank, name in enumerate(_results(function, view)):
            edits = insert_after(view, node, [f"return {name}"])
            if edits is not None:
                yield Proposal(edits, f"adds `return {name}`", base - 0.1 * rank)
        for leave, weight in _endings(node, function, view):
            edits = insert_after(view, node, [leave])
            if edits is not None:
                yield Proposal(edits, f"adds `{leave}`", base * weight)


def _endings(node: ast.stmt, function: Function, view: ModuleView) -> Iterator[tuple[str, float]]:
    """What a function may give when nothing else was found: as it says, or as its other returns do."""
    found: dict[str, float] = {"return True": 0.4, "return False": 0.4}
    for leave, weight in exits(node, function, view):
        if leave.startswith("return "):
            found[leave] = max(found.get(leave, 0.0), 0.8 * weight)
    returned = [
        each.value.value for each in own_returns(function, view) if isinstance(each.value, ast.Constant)
    ]
    for kind in (str, int):
        if any(type(value) is kind for value in returned):
            others = [each for each in view.constants(view.source.tree, kind) if each not in returned]
            for value in others[:_MOST_NAMES]:
                shown = repr(value)
                if len(shown) < 20:
                    found.setdefault(f"return {shown}", 0.5)
    yield from found.items()


def _results(function: Function, view: ModuleView) -> list[str]:
    """Names a function may be meant to return: those it binds last, then parameters."""
    names = view.local_names(function)
    given = parameters(function)
    bound = [name for name in reversed(names) if name not in given]
    return [*bound, *given][:_MOST_NAMES]
