"""Special cases answered before a statement: sizes, signs, bounds, members, identity, predicates, types."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import first_real, is_docstring, own_nodes
from ..clauses import conditions
from ..edits import insert_before
from ..exits import exits
from ..facts import walk
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Function

_MOST_CLAUSES = 8
_MOST_EXITS = 4
_BINARY = frozenset(
    f"__{name}__"
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "radd", "and", "or")
)


class SpecialCases(Family):
    """Inserts ``if <unusual>: <leave>`` where the condition comes from values in scope or from the file."""

    name = "special-case"
    prior = 0.6
    trust = 0.75
    harm = Harm.LOOSENS
    at_fault = True
    boosts = {  # noqa: RUF012
        "IndexError": 1.3,
        "KeyError": 1.2,
        "TypeError": 1.15,
        "AttributeError": 1.15,
        "ZeroDivisionError": 1.2,
        "ValueError": 1.1,
        "RecursionError": 1.2,
    }
    fault = "did not treat a special case"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return
        function = view.source.function_of(node)
        if function is None or is_docstring(node):
            return
        if node is first_real(function):
            yield from self._foreign_types(node, function, view)
            yield from self._the_same(node, function, view)
        if isinstance(node, ast.Return) and view.evidence.expected:
            yield from self._left_over(node, function, view)
        nodes = [node, *own_nodes(node)]
        for clause in conditions(view).at(node, nodes, _MOST_CLAUSES):
            if isinstance(node, (ast.If, ast.While)) and clause.text in ast.unparse(node.test):
                continue
            subject = _subject(clause.opposite)
            yield from self._leave(node, function, view, clause.opposite, clause.weight, subject)

    def _leave(
        self,
        node: ast.stmt,
        function: Function,
        view: ModuleView,
        condition: str,
        weight: float,
        subject: str,
    ) -> Iterator[Proposal]:
        leaves = exits(node, function, view, subject, _MOST_EXITS)
        if condition.startswith("len(") and condition.endswith("== 1"):
            leaves.append((f"return {subject}[0]", 0.75))
        for leave, share in leaves:
            edits = insert_before(view, node, [f"if {condition}:", f"\t{leave}"])
            if edits is not None:
                yield Proposal(edits, f"adds `if {condition}: {leave}`", weight * share)
        for error in view.evidence.expected:
            edits = insert_before(view, node, [f"if {condition}:", f"\traise {error}({_message(condition)})"])
            if edits is not None:
                yield Proposal(edits, f"raises {error} if {condition}", weight, Harm.PRECISE)

    def _the_same(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """A method that is given its own object."""
        given = parameters(function)
        if given[:1] != ("self",) or len(given) < 2 or function.name.startswith("__"):
            return
        used = {
            each.value.id
            for each in walk(view, function)
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)
        }
        for name in [each for each in given[1:] if each in used][:2]:
            yield from self._leave(node, function, view, f"{name} is self", 0.5, name)

    def _left_over(self, node: ast.Return, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """Something that should be used up by the end."""
        given = parameters(function)
        for name in [each for each in view.names_at(node) if each not in given][:5]:
            for error in view.evidence.expected:
                for condition, weight in ((name, 0.8), (f"not {name}", 0.7), (f"{name} is None", 0.6)):
                    lines = [f"if {condition}:", f"\traise {error}({_message(condition)})"]
                    edits = insert_before(view, node, lines)
                    if edits is not None:
                        yield Proposal(edits, f"raises {error} if {condition}", weight, Harm.PRECISE)

    def _foreign_types(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """An operator that takes its own kind only."""
        owner = view.source.class_of(function)
        given = parameters(function)
        if owner is None or function.name not in _BINARY or len(given) != 2:
            return
        condition = f"not isinstance({given[1]}, {owner.name})"
        leaves = ("return NotImplemented",)
        if function.name in ("__eq__", "__ne__"):
            leaves = ("return NotImplemented", f"return {function.name == '__ne__'}")
        for rank, leave in enumerate(leaves):
            edits = insert_before(view, node, [f"if {condition}:", f"\t{leave}"])
            if edits is not None:
                yield Proposal(edits, f"adds `if {condition}: {leave}`", 1.0 - 0.1 * rank, Harm.PRECISE)


def _subject(condition: str) -> str:
    """The single name or first argument that a condition is about."""
    tree = ast.parse(condition, mode="eval").body
    for each in ast.walk(tree):
        if isinstance(each, ast.Name) and each.id not in ("len", "isinstance", "self", "not"):
            return each.id
    return ""


def _message(condition: str) -> str:
    shown = condition.replace("\\", "\\\\").replace('"', "'")
    return f'"{shown}"'
