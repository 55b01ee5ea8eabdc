"""Conditions that could hold at a place: built from values in scope, and taken from the rest of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .adapt import adapter
from .facts import once, walk
from .scope import ModuleView, parameters
from .scope_clauses import (
    Clause,
    attributes_set,
    bounds,
    differences,
    kinds,
    present,
    signs,
    unset,
    used_names,
)
from .source import FUNCTIONS, Function

_FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_MOST_FROM_FILE = 6
_MOST_ATOMS = 70
_MOST_NAMES = 5


@dataclass(frozen=True)
class _Atom:
    """A condition of the file: ``holds`` when the code around goes on under it."""

    node: ast.expr
    function: Function
    names: frozenset[str]
    holds: bool


@dataclass(frozen=True)
class _Class:
    node: ast.ClassDef
    members: frozenset[str]
    predicates: tuple[tuple[str, int], ...]
    """Attribute name and how many arguments a call needs; -1 when it is no method."""


class Conditions:
    """The conditions of a module; one object per view."""

    def __init__(self, view: ModuleView) -> None:
        self._view = view
        self._of_function: dict[Function, tuple[tuple[Clause, frozenset[str]], ...]] = {}
        self._owners: dict[tuple[Function, str], _Class | None] = {}

    def at(self, place: ast.AST, nodes: Sequence[ast.AST], most: int = 16) -> list[Clause]:
        """Likely clauses about what ``nodes`` (a statement's or a condition's own) use, likeliest first."""
        view = self._view
        function = view.source.function_of(place)
        if function is None:
            return []
        known = frozenset(view.names_at(place))
        used = used_names(nodes, known)
        found: dict[str, Clause] = {}
        for clause in (
            *self._from_file(function, known, frozenset(used)),
            *self._predicates(function, used),
            *bounds(view, nodes, known),
            *unset(view, function, nodes, known),
            *present(used),
            *differences(view, place, used),
            *kinds(view, nodes),
            *attributes_set(view, nodes, known),
            *signs(nodes, known),
        ):
            if clause.text not in found or clause.weight > found[clause.text].weight:
                found[clause.text] = clause
        return sorted(found.values(), key=lambda each: -each.weight)[:most]

    # ------------------------------------------------------------ from the file

    @cached_property
    def _atoms(self) -> tuple[_Atom, ...]:
        view = self._view
        found: list[_Atom] = []
        for node in walk(view, view.source.tree):
            tests: list[tuple[ast.expr, bool]] = []
            if isinstance(node, (ast.If, ast.While)):
                leaves = isinstance(node.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))
                tests.append((node.test, not (isinstance(node, ast.If) and leaves and not node.orelse)))
            elif isinstance(node, ast.IfExp):
                tests.append((node.test, True))
            elif isinstance(node, ast.comprehension):
                tests += [(each, True) for each in node.ifs]
            elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Compare, ast.BoolOp)):
                tests.append((node.value, True))
            for test, holds in tests:
                parts = [test]
                if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
                    parts = test.values
                for part in parts:
                    function = view.source.function_of(part)
                    if function is None or not view.source.editable(part) or isinstance(part, ast.Constant):
                        continue
                    names = frozenset(each.id for each in ast.walk(part) if isinstance(each, ast.Name))
                    if names and (part.end_lineno or part.lineno) == part.lineno:
                        found.append(_Atom(part, function, names, holds))
        return tuple(found)

    def _of(self, function: Function) -> tuple[tuple[Clause, frozenset[str]], ...]:
        """The file's conditions in the names of a function, with the names each needs."""
        if function not in self._of_function:
            view = self._view
            known = frozenset(view.local_names(function))
            seen: dict[str, tuple[Clause, frozenset[str]]] = {}
            owner = view.source.class_of(function)
            atoms = self._atoms
            if len(atoms) > _MOST_ATOMS:
                atoms = sorted(atoms, key=lambda each: abs(each.node.lineno - function.lineno))[:_MOST_ATOMS]
            for atom in atoms:
                fits = adapter(view).mapping(atom.names, atom.function, function, known)
                if fits is None or (
                    "self" in atom.names and view.source.class_of(atom.function) is not owner
                ):
                    continue
                mapping, fit = fits
                text = adapter(view).written(atom.node, mapping)
                if text is None:
                    continue
                opposite = _opposite(atom.node, text)
                names = frozenset(mapping.get(name, name) for name in atom.names)
                weight = fit * (0.85 if atom.function is not function else 0.6)
                good, bad = (text, opposite) if atom.holds else (opposite, text)
                for other, reverse in _other_constants(view, atom, text):
                    seen.setdefault(other, (Clause(other, reverse, 0.6 * weight), names))
                    seen.setdefault(reverse, (Clause(reverse, other, 0.7 * weight), names))
                seen.setdefault(good, (Clause(good, bad, weight), names))
                seen.setdefault(bad, (Clause(bad, good, 0.6 * weight), names))
            self._of_function[function] = tuple(seen.values())
        return self._of_function[function]

    def _from_file(self, function: Function, known: frozenset[str], used: frozenset[str]) -> Iterator[Clause]:
        local = frozenset(self._view.local_names(function))
        fitting: list[Clause] = []
        for clause, names in self._of(function):
            if names & local <= known and names & used:
                share = len(names & used) / len(names)
                weight = clause.weight * (0.75 + 0.25 * share)
                fitting.append(Clause(clause.text, clause.opposite, weight))
        fitting.sort(key=lambda each: -each.weight)
        yield from fitting[:_MOST_FROM_FILE]

    # ------------------------------------------------------------ predicates of classes

    @cached_property
    def _classes(self) -> tuple[_Class, ...]:
        view = self._view
        return tuple(
            _Class(node, frozenset(view.members(node)), tuple(_predicates_of(node)))
            for node in walk(view, view.source.tree)
            if isinstance(node, ast.ClassDef)
        )

    def _class_of(self, function: Function, name: str) -> _Class | None:
        """The class of this file whose members a function uses on a name."""
        key = (function, name)
        if key not in self._owners:
            owner = self._view.source.class_of(function) if name == "self" else None
            used = {
                node.attr
                for node in walk(self._view, function)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == name
            }
            self._owners[key] = next(
                (
                    each
                    for each in self._classes
                    if each.node is owner or (name != "self" and used and used <= each.members)
                ),
                None,
            )
        return self._owners[key]

    def _predicates(self, function: Function, used: Sequence[str]) -> Iterator[Clause]:
        for rank, name in enumerate([*used, "self"][:_MOST_NAMES]):
            found = self._class_of(function, name)
            if found is None:
                continue
            for attribute, arity in found.predicates[:4]:
                if name == "self" and attribute == function.name:
                    continue
                weight = 0.72 - 0.05 * rank
                if arity == -1:
                    text = f"{name}.{attribute}"
                elif arity == 0:
                    text = f"{name}.{attribute}()"
                else:
                    others = [each for each in used if each != name]
                    for each in others[:2]:
                        text = f"{name}.{attribute}({each})"
                        yield Clause(text, f"not {text}", weight)
                        yield Clause(f"not {text}", text, weight - 0.1)
                    continue
                yield Clause(f"not {text}", text, weight)
                yield Clause(text, f"not {text}", weight - 0.03)


def _predicates_of(owner: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Members of a class that are true or false."""
    found: dict[str, int] = {}
    for node in owner.body:
        if isinstance(node, FUNCTIONS):
            returns = [each for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
            decorated = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            if returns and all(each.value is not None and _truth(each.value) for each in returns):
                arity = len(parameters(node)) - 1
                if not node.name.startswith("__") and 0 <= arity <= 1:
                    found[node.name] = -1 if "property" in decorated else arity
            flags = {
                argument.arg
                for argument, default in zip(
                    reversed([*node.args.posonlyargs, *node.args.args]),
                    reversed(node.args.defaults),
                    strict=False,
                )
                if _flag(default)
            }
            for each in ast.walk(node):
                if not isinstance(each, ast.Assign):
                    continue
                pairs: list[tuple[ast.expr, ast.expr]] = [(target, each.value) for target in each.targets]
                if isinstance(each.targets[0], ast.Tuple) and isinstance(each.value, ast.Tuple):
                    pairs = list(zip(each.targets[0].elts, each.value.elts, strict=False))
                for target, value in pairs:
                    flagged = _flag(value) or (isinstance(value, ast.Name) and value.id in flags)
                    if flagged and isinstance(target, ast.Attribute):
                        found.setdefault(target.attr, -1)
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.annotation, ast.Name)
            and node.annotation.id == "bool"
        ):
            found.setdefault(node.target.id, -1)
    yield from found.items()


def _flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _truth(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("any", "all", "bool", "isinstance", "callable", "hasattr")
    return (
        isinstance(node, (ast.Compare, ast.BoolOp))
        or _flag(node)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    )


def _other_constants(view: ModuleView, atom: _Atom, text: str) -> Iterator[tuple[str, str]]:
    """A comparison with a word, for the other words that the same function knows."""
    node = atom.node
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return
    right = node.comparators[0]
    if not isinstance(right, ast.Constant) or not isinstance(right.value, str):
        return
    old = view.source.segment(right)
    for value in view.constants(atom.function, str)[:6]:
        if isinstance(value, str) and value != right.value and value.isidentifier() and text.endswith(old):
            other = f"{text[: -len(old)]}{old[0]}{value}{old[0]}"
            tree = ast.parse(other, mode="eval").body
            yield other, _opposite(tree, other)


def _opposite(node: ast.expr, text: str) -> str:
    """A condition's text negated."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return text[3:].strip()
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        # The operator is found again in the mapped text by parsing it.
        inner = ast.parse(text, mode="eval").body
        if isinstance(inner, ast.Compare):
            left, right = ast.unparse(inner.left), ast.unparse(inner.comparators[0])
            return f"{left} {_FLIPPED[type(inner.ops[0])]} {right}"
    atom = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"not {text}" if atom else f"not ({text})"


def _conditions(tree: ast.Module, view: ModuleView) -> Conditions:
    return Conditions(view)


def conditions(view: ModuleView) -> Conditions:
    """The one object of a module's view."""
    return once(view, _conditions, view.source.tree)
