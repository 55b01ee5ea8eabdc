"""Call arguments: swapped, dropped, added, passed by the wrong keyword."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, is_method, parameters
from ..source import Edit, Function


class Arguments(Family):
    name = "argument"
    prior = 0.75
    fault = "passed the wrong arguments"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Call):
            return
        yield from self._swaps(node, view)
        yield from self._drops(node, view)
        yield from self._additions(node, view)

    def _swaps(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        plain = [each for each in node.args if not isinstance(each, ast.Starred)]
        for position, first in enumerate(plain):
            for distance, second in enumerate(plain[position + 1 :], start=1):
                texts = view.source.segment(first), view.source.segment(second)
                if texts[0] != texts[1]:
                    edits = replace(view, first, texts[1]) + replace(view, second, texts[0])
                    weight = 0.9 if distance == 1 else 0.5
                    yield Proposal(edits, f"swaps the arguments {texts[0]} and {texts[1]}", weight)
        pairs = [each for each in node.keywords if each.arg]
        for first, second in itertools.pairwise(pairs):
            texts = view.source.segment(first.value), view.source.segment(second.value)
            if texts[0] != texts[1]:
                edits = replace(view, first.value, texts[1]) + replace(view, second.value, texts[0])
                yield Proposal(edits, f"swaps the values of {first.arg} and {second.arg}", 0.5)

    def _drops(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        everything: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        for position, each in enumerate(everything):
            start, end = view.source.span(each)
            if position + 1 < len(everything):
                end = view.source.span(everything[position + 1])[0]
            elif position:
                start = view.source.span(everything[position - 1])[1]
            if isinstance(each, ast.GeneratorExp) or not start < end:
                continue
            text = " ".join(view.source.segment(each).split())
            yield Proposal((Edit(start, end, ""),), f"drops the argument {text}", 0.4, Harm.REMOVES)

    def _additions(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """A parameter of the called function, given nothing, that has a namesake in scope."""
        function = _called(node, view)
        _, end = view.source.span(node)
        if function is None or any(isinstance(each, ast.Starred) for each in node.args):
            return
        names = list(parameters(function))
        if is_method(function, view.source):
            names = names[1:]
        given = set(names[: len(node.args)]) | {each.arg for each in node.keywords}
        here = view.names_at(node)
        owner = view.source.class_of(node)
        comma = ", " if node.args or node.keywords else ""
        for name in names:
            if name in given or (function.args.vararg and name == function.args.vararg.arg):
                continue
            if name in here:
                yield Proposal((Edit(end - 1, end - 1, f"{comma}{name}={name}"),), f"passes {name} on", 0.8)
            elif owner is not None and name in view.members(owner):
                edit = Edit(end - 1, end - 1, f"{comma}{name}=self.{name}")
                yield Proposal((edit,), f"passes self.{name} on", 0.5)


def _called(node: ast.Call, view: ModuleView) -> Function | None:
    if isinstance(node.func, ast.Name):
        return view.functions.get(node.func.id)
    if isinstance(node.func, ast.Attribute):
        return view.functions.get(node.func.attr)
    return None
