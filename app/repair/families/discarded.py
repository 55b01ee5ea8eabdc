"""Results that are dropped: values never assigned, generators never drained, coroutines never awaited."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import is_docstring, lines_of, movable, wrap
from ..edits import enclosed, replace
from ..facts import is_generator, own_returns
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit, Function

_PURE = frozenset(
    (
        *(
            "strip",
            "lstrip",
            "rstrip",
            "lower",
            "upper",
            "title",
            "capitalize",
            "replace",
            "casefold",
            "center",
        ),
        *("ljust", "rjust", "zfill", "removeprefix", "removesuffix", "translate", "expandtabs", "encode"),
        *("decode", "union", "intersection", "difference", "copy", "resolve", "with_suffix", "joinpath"),
        *("sorted", "reversed", "set", "list", "abs", "round", "str", "int", "float"),
    )
)


class Discarded(Family):
    name = "discarded"
    prior = 0.8
    trust = 0.75
    fault = "dropped a result"
    boosts = {"TypeError": 1.2, "AttributeError": 1.2}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        function = view.source.function_of(node)
        if function is None:
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not is_docstring(node):
            yield from self._assigned(node, node.value, view)
            yield from self._drained(node, node.value, function, view)
            yield from self._asked(node, node.value, view)
        elif isinstance(node, ast.Yield) and node.value is not None:
            start, _ = view.source.span(node)
            if view.source.text.startswith("yield", start):
                yield Proposal((Edit(start + 5, start + 5, " from"),), "yields the items one by one", 0.7)
        elif isinstance(node, ast.YieldFrom):
            start, _ = view.source.span(node)
            value = view.source.segment(node.value)
            yield Proposal(replace(view, node, f"yield {value}"), "yields the whole at once", 0.6)
        if isinstance(node, ast.Call) and isinstance(function, ast.AsyncFunctionDef):
            yield from self._awaited(node, view)

    def _assigned(self, node: ast.Expr, call: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        start, _ = view.source.span(node)
        if isinstance(call.func, ast.Attribute):
            base = call.func.value
            if isinstance(base, (ast.Name, ast.Attribute, ast.Subscript)) and ast.unparse(base) not in (
                "self",
                "cls",
            ):
                weight = 1.0 if call.func.attr in _PURE else 0.35
                text = view.source.segment(base)
                yield Proposal((Edit(start, start, f"{text} = "),), f"keeps the result in {text}", weight)
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        known = view.functions.get(name)
        gives = known is not None and any(each.value for each in own_returns(known, view))
        for rank, argument in enumerate(call.args[:2]):
            if isinstance(argument, (ast.Name, ast.Attribute)):
                weight = (0.95 if gives or name in _PURE else 0.3) - 0.2 * rank
                text = view.source.segment(argument)
                yield Proposal((Edit(start, start, f"{text} = "),), f"keeps the result in {text}", weight)

    def _drained(
        self, node: ast.Expr, call: ast.Call, function: Function, view: ModuleView
    ) -> Iterator[Proposal]:
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        known = view.functions.get(name)
        start, _ = view.source.span(node)
        if known is not None and is_generator(known, view):
            yield Proposal((Edit(start, start, "yield from "),), "passes its items on", 1.0)
        elif is_generator(function, view):
            yield Proposal((Edit(start, start, "yield "),), "yields the result", 0.4)

    def _asked(self, node: ast.Expr, call: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """An answer that should decide about the statement after it."""
        block = view.source.block_of(node)
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        known = view.functions.get(name)
        if block is None or known is None or not any(each.value for each in own_returns(known, view)):
            return
        following = block[block.index(node) + 1 :][:1]
        if not following or not movable(view, node):
            return
        text = view.source.segment(node)
        for condition, weight in ((text, 0.8), (f"not {text}", 0.6)):
            edits = wrap(view, following, [f"if {condition}:"])
            if edits is not None and "\n" not in text:
                start, end = lines_of(view, [node])
                shown = f"does what follows only if {condition}"
                yield Proposal((Edit(start, end, ""), *edits), shown, weight)

    def _awaited(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.Await) or not view.source.editable(node):
            return
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        known = view.functions.get(name)
        weight = 1.0 if isinstance(known, ast.AsyncFunctionDef) else 0.0 if known is not None else 0.3
        if not weight or (isinstance(node.func, ast.Name) and known is None):
            return
        text = f"await {view.source.segment(node)}"
        if isinstance(parent, (ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.Compare)):
            text = f"(await {enclosed(view, node)})"
        yield Proposal(replace(view, node, text), f"awaits {name}()", weight)
