"""State of classes: lists shared by all instances, and fields that equality, hash and order forget."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import first_real, lines_of
from ..edits import insert_before, replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import Edit, Function

_MUTABLE = ("[]", "{}", "set()", "dict()", "list()")
_MOST_FIELDS = 5


class ClassState(Family):
    name = "class-state"
    prior = 0.8
    fault = "mixed up the state of its objects"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        owner = view.source.parents.get(node)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(owner, ast.ClassDef):
            yield from self._shared(node, owner, view)
        function = view.source.function_of(node)
        if not isinstance(node, ast.Return) or function is None or node.value is None:
            return
        owner = view.source.parents.get(function)
        if not isinstance(owner, ast.ClassDef):
            return
        if function.name == "__eq__":
            yield from self._equality(node.value, owner, view)
        elif function.name == "__hash__":
            yield from self._hash(node.value, owner, view)
        elif function.name in ("__lt__", "__le__", "__gt__", "__ge__"):
            yield from self._order(node.value, owner, view)

    def _shared(
        self, node: ast.Assign | ast.AnnAssign, owner: ast.ClassDef, view: ModuleView
    ) -> Iterator[Proposal]:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if node.value is None or not isinstance(target, ast.Name) or not view.source.alone_on_lines(node):
            return
        text = view.source.segment(node.value)
        if text not in _MUTABLE:
            return
        if isinstance(node, ast.AnnAssign):
            kind = {"[]": "list", "{}": "dict"}.get(text, text.removesuffix("()"))
            for name in ("field", "dataclasses.field"):
                if name.partition(".")[0] in view.module_names:
                    new = f"{name}(default_factory={kind})"
                    yield Proposal(
                        replace(view, node.value, new), f"makes a new {kind} for every object", 1.0
                    )
        line = f"self.{target.id} = {text}"
        removal = Edit(*lines_of(view, [node]), "")
        initialiser = next((each for each in view.methods(owner) if each.name == "__init__"), None)
        if initialiser is not None:
            edits = insert_before(view, first_real(initialiser), [line])
            if edits is not None:
                shown = f"gives every object a {target.id} of its own"
                yield Proposal((removal, *edits), shown, 1.0)
        else:
            indent, unit, newline = view.source.indent(node), view.source.indent_unit, view.source.newline
            method = f"{indent}def __init__(self):{newline}{indent}{unit}{line}{newline}"
            yield Proposal((Edit(removal.start, removal.end, method),), "gives every object its own", 0.8)

    def _equality(self, value: ast.expr, owner: ast.ClassDef, view: ModuleView) -> Iterator[Proposal]:
        compared = _own_attributes(value)
        missing = [name for name in _fields(owner, view) if name not in compared]
        others = {
            each.value.id
            for each in ast.walk(value)
            if isinstance(each, ast.Attribute)
            and isinstance(each.value, ast.Name)
            and each.value.id != "self"
        }
        if not compared or len(others) != 1:
            return
        (other,) = others
        text = view.source.segment(value)
        if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
            text = f"({text})"
        for names in _groups(missing):
            more = " and ".join(f"self.{name} == {other}.{name}" for name in names)
            yield Proposal(
                replace(view, value, f"{text} and {more}"), f"also compares {', '.join(names)}", 0.8
            )

    def _hash(self, value: ast.expr, owner: ast.ClassDef, view: ModuleView) -> Iterator[Proposal]:
        """The hash of just what equality compares."""
        equality = next((each for each in view.methods(owner) if each.name == "__eq__"), None)
        compared = _own_attributes(equality) if equality is not None else []
        if not compared:
            return
        fields = ", ".join(f"self.{name}" for name in compared)
        new = f"hash({fields})" if len(compared) == 1 else f"hash(({fields}))"
        if new != view.source.segment(value):
            yield Proposal(replace(view, value, new), "hashes what equality compares", 1.0)

    def _order(self, value: ast.expr, owner: ast.ClassDef, view: ModuleView) -> Iterator[Proposal]:
        """A second field that decides between equals."""
        if not isinstance(value, ast.Compare) or len(value.ops) != 1:
            return
        left, right = value.left, value.comparators[0]
        if not isinstance(left, ast.Attribute) or not isinstance(right, ast.Attribute):
            return
        other = view.source.segment(right.value)
        for name in [each for each in _fields(owner, view) if each != left.attr][:_MOST_FIELDS]:
            edits = replace(view, left, f"({view.source.segment(left)}, self.{name})") + replace(
                view, right, f"({view.source.segment(right)}, {other}.{name})"
            )
            yield Proposal(edits, f"orders equals by {name}", 0.6)


def _groups(names: list[str]) -> list[list[str]]:
    """All together, then each alone."""
    singles = [[name] for name in names[:_MOST_FIELDS]]
    return [names, *singles] if 1 < len(names) <= _MOST_FIELDS else singles


def _own_attributes(node: ast.AST) -> list[str]:
    found: dict[str, None] = {}
    inside = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
    ]
    for each in sorted(inside, key=lambda one: (one.lineno, one.col_offset)):
        found[each.attr] = None
    return list(found)


def _fields(owner: ast.ClassDef, view: ModuleView) -> list[str]:
    """Attributes that the initialiser sets, or the annotated fields of a dataclass."""
    initialiser: Function | None = next(
        (each for each in view.methods(owner) if each.name == "__init__"), None
    )
    if initialiser is None:
        return [
            each.target.id
            for each in owner.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        ]
    found: dict[str, None] = {}
    for each in ast.walk(initialiser):
        if not isinstance(each, ast.Attribute) or not isinstance(each.ctx, ast.Store):
            continue
        if isinstance(each.value, ast.Name) and each.value.id == "self":
            found[each.attr] = None
    return list(found)
