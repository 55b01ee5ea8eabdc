"""Conditions built from the values in scope: present, set, within bounds, different, positive."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .adapt import adapter
from .facts import once, walk
from .scope import ModuleView, is_method, parameters
from .source import Function

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


def used_names(nodes: Iterable[ast.AST], known: frozenset[str]) -> tuple[str, ...]:
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


def present(used: Sequence[str]) -> Iterator[Clause]:
    """Values that must not be empty or None."""
    for rank, name in enumerate(used[:3]):
        yield Clause(name, f"not {name}", 0.62 - 0.06 * rank, True)
        yield Clause(f"{name} is not None", f"{name} is None", 0.55 - 0.06 * rank, True)


def unset(
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


def bounds(view: ModuleView, nodes: Iterable[ast.AST], known: frozenset[str]) -> Iterator[Clause]:
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


def differences(view: ModuleView, place: ast.AST, used: Sequence[str]) -> Iterator[Clause]:
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


def kinds(view: ModuleView, nodes: Iterable[ast.AST]) -> Iterator[Clause]:
    """What is looked into must be a container; what begins like a word must go on."""
    asked = 0.8 if {"TypeError", "AttributeError"}.intersection(view.evidence.raised) else 0.35
    for node in nodes:
        inside: ast.expr | None = None
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], (ast.In, ast.NotIn))
        ):
            inside = node.comparators[0]
        elif isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.UnaryOp)):
            inside = node.value
        if isinstance(inside, (ast.Name, ast.Attribute)):
            for rank, kind in enumerate(("dict", "list", "str")):
                text = f"isinstance({ast.unparse(inside)}, {kind})"
                yield Clause(text, f"not {text}", asked - 0.15 * rank, True)
        called = node.func if isinstance(node, ast.Call) else None
        begins = isinstance(called, ast.Attribute) and called.attr in ("startswith", "endswith")
        if isinstance(called, ast.Attribute) and begins and isinstance(called.value, ast.Name):
            name = called.value.id
            yield Clause(f"len({name}) > 1", f"len({name}) <= 1", 0.5)


def attributes_set(view: ModuleView, nodes: Iterable[ast.AST], known: frozenset[str]) -> Iterator[Clause]:
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


def signs(nodes: Iterable[ast.AST], known: frozenset[str]) -> Iterator[Clause]:
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
