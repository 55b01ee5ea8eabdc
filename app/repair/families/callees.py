"""Callees: the opposite or neighbouring function, a similar name, a sibling method."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..family import Family, Proposal
from ..scope import ModuleView
from ..similarity import likeness
from ..source import Edit

_PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("append", "extend"),
    ("add", "update"),
    ("add", "discard"),
    ("remove", "discard"),
    ("lower", "upper"),
    ("lstrip", "rstrip"),
    ("strip", "rstrip"),
    ("strip", "lstrip"),
    ("startswith", "endswith"),
    ("find", "rfind"),
    ("index", "rindex"),
    ("find", "index"),
    ("split", "rsplit"),
    ("partition", "rpartition"),
    ("split", "splitlines"),
    ("ljust", "rjust"),
    ("removeprefix", "removesuffix"),
    ("keys", "values"),
    ("items", "values"),
    ("keys", "items"),
    ("union", "intersection"),
    ("difference", "symmetric_difference"),
    ("difference", "intersection"),
    ("issubset", "issuperset"),
    ("int", "float"),
    ("int", "round"),
    ("floor", "ceil"),
    ("str", "repr"),
    ("list", "set"),
    ("list", "tuple"),
    ("set", "sorted"),
    ("list", "sorted"),
    ("sorted", "reversed"),
    ("sum", "len"),
    ("sum", "max"),
    ("isdigit", "isalnum"),
    ("isdigit", "isalpha"),
    ("isalpha", "isalnum"),
    ("match", "search"),
    ("match", "fullmatch"),
    ("search", "fullmatch"),
    ("pop", "popleft"),
    ("append", "appendleft"),
    ("bisect_left", "bisect_right"),
    ("isinstance", "issubclass"),
    ("getattr", "hasattr"),
    ("heappush", "heappop"),
    ("seconds", "total_seconds"),
    ("read", "readlines"),
    ("read", "readline"),
    ("islower", "isupper"),
    ("title", "capitalize"),
    ("insert", "append"),
    ("encode", "decode"),
    ("sin", "cos"),
    ("log", "log2"),
    ("log", "log10"),
    ("union", "difference"),
    ("upper", "title"),
    ("lower", "casefold"),
    ("copy", "deepcopy"),
)
_PARTNERS: dict[str, list[str]] = {}
for _one, _two in _PAIRS:
    _PARTNERS.setdefault(_one, []).append(_two)
    _PARTNERS.setdefault(_two, []).append(_one)

_MOST_SIBLINGS = 8


class Callees(Family):
    name = "callee"
    prior = 0.8
    fault = "called the wrong function"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call):
            yield from self._substitutes(node.func, view)
            if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id in _PARTNERS:
                yield from self._substitutes(node.args[0], view)

    def _substitutes(self, callee: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(callee, ast.Name):
            old, siblings = callee.id, list(view.module_functions)
        elif isinstance(callee, ast.Attribute):
            old = callee.attr
            siblings = [name for name in view.attributes_of(callee.value) if name in view.called_attributes]
            owner = view.source.class_of(callee)
            if owner is not None and ast.unparse(callee.value) == "self":
                siblings += [method.name for method in view.methods(owner)]
        else:
            return
        _, end = view.source.span(callee)
        weights: dict[str, float] = {new: 1.0 - 0.1 * i for i, new in enumerate(_PARTNERS.get(old, ()))}
        ranked = sorted(dict.fromkeys(siblings), key=lambda name: (-likeness(old, name), name))
        for name in ranked[:_MOST_SIBLINGS]:
            if name != old and not name.startswith("__"):
                weights.setdefault(name, 0.25 + 0.6 * likeness(old, name))
        for new, weight in weights.items():
            yield Proposal((Edit(end - len(old), end, new),), f"calls {new} instead of {old}", weight)
