"""Conditions that could hold at a place: built from values in scope, and taken from the rest of the file."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .adapt import adapter
from .facts import once, walk
from .scope import ModuleView, is_method, parameters
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
class Clause:
    """A condition under which it is right to go on, and its opposite.

    ``first``: it protects what stands after it, so it belongs before other conditions.
    """

    text: str
    opposite: str
    weight: float
    first: bool = False


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
        used = _used(nodes, known)
        found: dict[str, Clause] = {}
        for clause in (
            *self._from_file(function, known, frozenset(used)),
            *self._predicates(function, used),
            *_bounds(view, nodes, known),
            *_unset(view, function, nodes, known),
            *_present(used),
            *_differences(view, place, used),
            *_attributes_set(view, nodes, known),
            *_signs(nodes, known),
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


def _used(nodes: Iterable[ast.AST], known: frozenset[str]) -> tuple[str, ...]:
    """Known names that the nodes read, receivers of attributes and items before the others."""
    names: dict[str, None] = {}
    every = list(nodes)
    for node in every:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name):
            names[node.value.id] = None
    for node in every:
        if isinstance(node, ast.Name):
            names[node.id] = None
    return tuple(name for name in names if name in known and name not in ("self", "cls"))


def _present(used: Sequence[str]) -> Iterator[Clause]:
    """Values that must not be empty or None."""
    for rank, name in enumerate(used[:3]):
        yield Clause(name, f"not {name}", 0.62 - 0.06 * rank, True)
        yield Clause(f"{name} is not None", f"{name} is None", 0.55 - 0.06 * rank, True)


def _unset(
    view: ModuleView, function: Function, nodes: Iterable[ast.AST], known: frozenset[str]
) -> Iterator[Clause]:
    """Names and attributes that begin as None, compared or computed with."""
    owner = view.source.class_of(function)
    begun = once(view, _begun_as_none, function)
    begun |= once(view, _begun_as_none, owner) if owner is not None else frozenset[str]()
    for node in nodes:
        operands: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        for operand in operands:
            while isinstance(operand, (ast.Attribute, ast.Subscript)) and ast.unparse(operand) not in begun:
                operand = operand.value
            text = ast.unparse(operand)
            if text in begun and text.partition(".")[0] in known:
                yield Clause(f"{text} is not None", f"{text} is None", 0.9, True)


def _begun_as_none(scope: ast.AST, view: ModuleView) -> frozenset[str]:
    """Names and attributes that a function or class sets to None."""
    found: set[str] = set()
    for node in walk(view, scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None:
            found |= {ast.unparse(target) for target in node.targets}
    return frozenset(found)


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


def _bounds(view: ModuleView, nodes: Iterable[ast.AST], known: frozenset[str]) -> Iterator[Clause]:
    """An index inside its sequence, a key inside its mapping."""
    for node in nodes:
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, (ast.Slice, ast.Tuple)):
            continue
        if not view.source.editable(node) or isinstance(node.slice, ast.JoinedStr):
            continue
        base, key = view.source.segment(node.value), view.source.segment(node.slice)
        if "\n" in base + key:
            continue
        if isinstance(node.slice, (ast.Name, ast.BinOp, ast.Attribute)):
            yield Clause(f"{key} < len({base})", f"{key} >= len({base})", 0.8, True)
            if isinstance(node.slice, ast.BinOp) and isinstance(node.slice.op, ast.Sub):
                left, right = (view.source.segment(each) for each in (node.slice.left, node.slice.right))
                low = "0" if right == "1" else right
                sign = (">", "<=") if right == "1" else (">=", "<")
                yield Clause(f"{left} {sign[0]} {low}", f"{left} {sign[1]} {low}", 0.72, True)
            yield Clause(f"{key} >= 0", f"{key} < 0", 0.6, True)
        elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            size = node.slice.value
            if size > 0:
                yield Clause(f"len({base}) > {size}", f"len({base}) <= {size}", 0.75, True)
            elif size == 0:
                yield Clause(f"{base}", f"not {base}", 0.6, True)
        if not isinstance(node.slice, ast.UnaryOp) and not (
            isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
        ):
            if not isinstance(node.ctx, ast.Store):
                yield Clause(f"{key} in {base}", f"{key} not in {base}", 0.7, True)
            else:
                yield Clause(f"{key} not in {base}", f"{key} in {base}", 0.55)


def _differences(view: ModuleView, place: ast.AST, used: Sequence[str]) -> Iterator[Clause]:
    """Two values of like role that must differ, and a value that must be new to a collection."""
    function = view.source.function_of(place)
    if function is None:
        return
    roles = adapter(view).roles(function)
    collections = once(view, _collections, function)
    here = set(view.names_at(place))
    joined = once(view, _joined, function)
    for name in used[:_MOST_NAMES]:
        role = roles.get(name)
        if role == "loop":
            for other in parameters(function):
                if other not in ("self", "cls") and other != name and (name, other) in joined:
                    yield Clause(f"{name} != {other}", f"{name} == {other}", 0.62)
        for collection, grows in collections.items():
            base = collection.removeprefix("self.")
            if (base in here or collection != base) and name != collection and not name.startswith(base):
                grown = name in grows
                if grown or role in ("loop", "local"):
                    weight = 0.88 if grown else 0.4
                    yield Clause(f"{name} not in {collection}", f"{name} in {collection}", weight)
    given = [each for each in parameters(function) if each in used or each == "self"]
    for one, two in itertools.pairwise(given):
        if is_method(function, view.source) and one == "self":
            yield Clause(f"{two} is not self", f"{two} is self", 0.55)
        elif one != "self":
            yield Clause(f"{one} != {two}", f"{one} == {two}", 0.5)


def _joined(function: Function, view: ModuleView) -> frozenset[tuple[str, str]]:
    """Pairs of names that a function uses in one expression: they are of one kind."""
    found: set[tuple[str, str]] = set()
    for node in walk(view, function):
        if isinstance(node, (ast.BinOp, ast.Compare)):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            found |= {(one, two) for one in names for two in names if one != two}
    return frozenset(found)


def _collections(function: Function, view: ModuleView) -> dict[str, frozenset[str]]:
    """Collections that a function makes empty or adds to -> names it adds to them."""
    found: dict[str, set[str]] = {}
    for node in walk(view, function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if ast.unparse(node.value) in ("set()", "[]", "{}", "dict()", "list()"):
                found.setdefault(node.targets[0].id, set())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "add" and len(node.args) == 1 and isinstance(node.args[0], ast.Name):
                found.setdefault(ast.unparse(node.func.value), set()).add(node.args[0].id)
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Name):
                found.setdefault(ast.unparse(target.value), set()).add(target.slice.id)
    return {name: frozenset(grows) for name, grows in found.items()}


def _attributes_set(view: ModuleView, nodes: Iterable[ast.AST], known: frozenset[str]) -> Iterator[Clause]:
    """Attributes and items that must be there before they are used."""
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
            node.value, (ast.Attribute, ast.Subscript)
        ):
            if not view.source.editable(node):
                continue
            text = view.source.segment(node.value)
            if "\n" not in text:
                yield Clause(f"{text} is not None", f"{text} is None", 0.62, True)
                yield Clause(text, f"not {text}", 0.55, True)


def _signs(nodes: Iterable[ast.AST], known: frozenset[str]) -> Iterator[Clause]:
    """Numbers and lengths on the right side of a limit."""
    seen: dict[str, None] = {}
    sized: dict[str, None] = {}
    differences: dict[tuple[str, str], None] = {}
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
            divisor = node.right
            if isinstance(divisor, ast.BinOp) and isinstance(divisor.op, ast.Sub):
                differences[(ast.unparse(divisor.left), ast.unparse(divisor.right))] = None
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mod):
            for side in (node.left, node.right):
                if isinstance(side, ast.Name) and side.id in known:
                    seen[side.id] = None
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Name) and node.operand.id in known:
                seen[node.operand.id] = None
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
            seen |= {each.id: None for each in node.args if isinstance(each, ast.Name) and each.id in known}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" and node.args:
            if isinstance(node.args[0], ast.Name):
                sized[node.args[0].id] = None
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in known:
            constant = isinstance(node.slice, (ast.Constant, ast.UnaryOp, ast.Slice))
            if constant and not (
                isinstance(node.slice, ast.Constant) and not isinstance(node.slice.value, int)
            ):
                sized[node.value.id] = None
    for rank, name in enumerate(list(seen)[:3]):
        yield Clause(f"{name} > 0", f"{name} <= 0", 0.5 - 0.05 * rank)
        yield Clause(f"{name} >= 0", f"{name} < 0", 0.5 - 0.05 * rank)
        yield Clause(f"{name} != 0", f"{name} == 0", 0.46 - 0.05 * rank)
    for one, two in differences:
        yield Clause(f"{one} != {two}", f"{one} == {two}", 0.75)
    for rank, name in enumerate(list(sized)[:2]):
        yield Clause(f"len({name}) >= 2", f"len({name}) < 2", 0.55 - 0.05 * rank)
        yield Clause(f"len({name}) > 1", f"len({name}) <= 1", 0.5 - 0.05 * rank)
        yield Clause(f"len({name}) != 1", f"len({name}) == 1", 0.52 - 0.05 * rank)


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
