"""Defaults of dataclass fields: None where a new collection belongs, a shared one, the wrong kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit

_FACTORIES = ("list", "dict", "set", "tuple")
_EMPTY = {"[]": "list", "{}": "dict", "set()": "set", "list()": "list", "dict()": "dict"}


class FieldDefaults(Family):
    name = "field-default"
    prior = 0.9
    fault = "gave a field of its class the wrong default"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            return
        owner = view.source.parents.get(node)
        if not isinstance(owner, ast.ClassDef) or not _is_dataclass(owner):
            return
        kind = _kind(node.annotation)
        if node.value is None:
            yield from self._missing(node, owner, kind, view)
        elif isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("field"):
            yield from self._factories(node.value, kind, view)
        else:
            yield from self._values(node.value, kind, view)

    def _values(self, value: ast.expr, kind: str, view: ModuleView) -> Iterator[Proposal]:
        text = view.source.segment(value)
        made = _EMPTY.get(text)
        likely = dict.fromkeys([each for each in (made, kind) if each], 1.0)
        if isinstance(value, ast.Constant) and value.value is None and not likely:
            likely = {"list": 0.4, "dict": 0.4, "set": 0.3}
        for name, weight in likely.items():
            edits = _with_import(view, replace(view, value, f"field(default_factory={name})"))
            if edits is not None:
                yield Proposal(edits, f"makes a new {name} for every object", weight)

    def _factories(self, value: ast.Call, kind: str, view: ModuleView) -> Iterator[Proposal]:
        for keyword in value.keywords:
            if keyword.arg == "default_factory" and isinstance(keyword.value, ast.Name):
                for name in _FACTORIES:
                    if name != keyword.value.id:
                        weight = 1.0 if name == kind else 0.4
                        yield Proposal(replace(view, keyword.value, name), f"starts with a {name}", weight)
            elif keyword.arg == "default" and view.source.segment(keyword.value) in _EMPTY:
                name = _EMPTY[view.source.segment(keyword.value)]
                yield Proposal(replace(view, keyword, f"default_factory={name}"), f"makes a new {name}", 1.0)

    def _missing(
        self, node: ast.AnnAssign, owner: ast.ClassDef, kind: str, view: ModuleView
    ) -> Iterator[Proposal]:
        position = owner.body.index(node)
        later = [each for each in owner.body[position + 1 :] if isinstance(each, ast.AnnAssign)]
        if any(each.value is None for each in later):
            return  # fields without a default cannot follow
        end = view.source.span(node)[1]
        annotation = ast.unparse(node.annotation)
        values = {"int": "0", "float": "0.0", "str": '""', "bool": "False"}
        if kind:
            edits = _with_import(view, (Edit(end, end, f" = field(default_factory={kind})"),))
            if edits is not None:
                yield Proposal(edits, f"starts with a new {kind}", 0.7)
        elif annotation in values:
            yield Proposal(
                (Edit(end, end, f" = {values[annotation]}"),), f"defaults to {values[annotation]}", 0.7
            )
        if "None" in annotation or "Optional" in annotation:
            yield Proposal((Edit(end, end, " = None"),), "defaults to None", 0.9)


def _is_dataclass(owner: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(each) for each in owner.decorator_list)


def _kind(annotation: ast.expr) -> str:
    """The collection an annotation names, or empty."""
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = ast.unparse(outer).rpartition(".")[2].lower()
    return name if name in ("list", "dict", "set") else ""


def _with_import(view: ModuleView, edits: tuple[Edit, ...]) -> tuple[Edit, ...] | None:
    """Also imports ``field`` where the file does not yet."""
    if "field" in view.module_names:
        return edits
    for node in view.source.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
            end = view.source.span(node.names[-1])[1]
            return (Edit(end, end, ", field"), *edits)
    if "dataclasses" in view.module_names:
        return tuple(
            Edit(each.start, each.end, each.text.replace("field(", "dataclasses.field(")) for each in edits
        )
    return None
