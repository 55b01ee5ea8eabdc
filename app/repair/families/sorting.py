"""Sorting: the direction and the key of sorted, sort, min and max."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

_MOST_KEYS = 6
_KEYS = (
    "len",
    "abs",
    "str.lower",
    "str",
    "int",
    "lambda item: item[0]",
    "lambda item: item[1]",
    "lambda item: -item[1]",
    "lambda item: (-item[1], item[0])",
    "lambda item: -item",
    "str.casefold",
)


class Sorting(Family):
    name = "sorting"
    prior = 0.75
    fault = "sorted in the wrong order"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Call):
            return
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name == "reversed" and len(node.args) == 1:
            inner = view.source.segment(node.args[0])
            yield Proposal(replace(view, node, inner), "does not reverse", 0.8, Harm.REMOVES)
        if name not in ("sorted", "sort", "min", "max"):
            return
        given = {each.arg: each for each in node.keywords if each.arg}
        if name in ("sorted", "sort"):
            yield from self._direction(node, given, view)
        yield from self._key(node, given, view)

    def _direction(
        self, node: ast.Call, given: dict[str, ast.keyword], view: ModuleView
    ) -> Iterator[Proposal]:
        if "reverse" not in given:
            yield Proposal(_added(node, view, "reverse=True"), "sorts in descending order")

    def _mixed(self, key: ast.Lambda, reverse: ast.keyword | None, view: ModuleView) -> Iterator[Proposal]:
        """Descending by the first value and ascending by the rest, instead of ``reverse``."""
        if reverse is None:
            return
        body = key.body
        start, end = view.source.span(body)[0], view.source.span(reverse)[1]
        if view.source.span(reverse)[0] < start:
            return
        if isinstance(body, ast.Tuple):
            items = [view.source.segment(each) for each in body.elts]
            for count in range(1, len(items)):
                texts = [_negative(each) if i < count else each for i, each in enumerate(items)]
                edit = Edit(start, end, f"({', '.join(texts)})")
                yield Proposal((edit,), f"descends by the first {count} only", 0.9)
        elif isinstance(body, ast.Subscript) and isinstance(body.slice, ast.Constant):
            base, text = view.source.segment(body.value), view.source.segment(body)
            other = 0 if body.slice.value == 1 else 1
            edit = Edit(start, end, f"(-{text}, {base}[{other}])")
            yield Proposal((edit,), f"descends by {text} and ascends by the other", 0.8)
        else:
            for argument in key.args.args[:1]:
                for attribute in view.attributes_of(ast.Name(argument.arg)):
                    text = view.source.segment(body)
                    other = f"{argument.arg}.{attribute}"
                    if other != text and attribute not in view.called_attributes:
                        edit = Edit(start, end, f"(-{text}, {other})")
                        yield Proposal((edit,), f"descends by {text} and ascends by {other}", 0.6)

    def _key(self, node: ast.Call, given: dict[str, ast.keyword], view: ModuleView) -> Iterator[Proposal]:
        if "key" not in given:
            for key in (*_lambdas(node, view), *_KEYS):
                yield Proposal(_added(node, view, f"key={key}"), f"orders by {key}", 0.6)
            return
        key = given["key"].value
        for text in _lambdas(node, view):
            if text != view.source.segment(key):
                yield Proposal(replace(view, key, text), f"orders by {text}", 0.5)
        if isinstance(key, ast.Lambda):
            yield from self._mixed(key, given.get("reverse"), view)
            body = key.body
            text = view.source.segment(body)
            if isinstance(body, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                yield Proposal(replace(view, body, f"-{text}"), "orders by the negated key", 0.6)
            if isinstance(body, ast.Tuple):
                for each in body.elts:
                    old = view.source.segment(each)
                    new = old[1:] if old.startswith("-") else f"-{old}"
                    yield Proposal(replace(view, each, new), f"orders by {new}", 0.7)


def _negative(text: str) -> str:
    return text[1:] if text.startswith("-") else f"-{text}"


def _lambdas(node: ast.Call, view: ModuleView) -> list[str]:
    """Keys the file sorts by elsewhere, and the values of a mapping that is sorted."""
    found = list(view.remembered("sort keys", _sort_keys))
    if len(node.args) == 1 and isinstance(node.args[0], (ast.Name, ast.Attribute)):
        found.append(f"{view.source.segment(node.args[0])}.get")
    return found[:_MOST_KEYS]


def _sort_keys(view: ModuleView) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for node in ast.walk(view.source.tree):
        if isinstance(node, ast.keyword) and node.arg == "key":
            text = view.source.segment(node.value)
            if "\n" not in text and len(text) < 60:
                found[text] = None
    return tuple(found)


def _added(node: ast.Call, view: ModuleView, argument: str) -> tuple[Edit, ...]:
    _, end = view.source.span(node)
    inside = view.source.text[: end - 1].rstrip()
    if not node.args and not node.keywords:
        return (Edit(end - 1, end - 1, argument),)
    if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.GeneratorExp):
        bare = view.source.span(node.args[0])
        if bare[1] == end:  # sorted(x for x in y): its parentheses are those of the call
            return (Edit(bare[0], bare[0], "("), Edit(end, end, f", {argument})"))
    if inside.endswith(","):
        return (Edit(len(inside), end - 1, f" {argument}"),)
    return (Edit(len(inside), len(inside), f", {argument}"),)
