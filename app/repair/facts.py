"""Facts about a module that families ask for at many nodes, found once per view."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from .scope import ModuleView
from .source import FUNCTIONS, Function

_Node = TypeVar("_Node", bound=ast.AST)
_Fact = TypeVar("_Fact")

_MEMORY: WeakKeyDictionary[ModuleView, dict[tuple[object, ast.AST], object]] = WeakKeyDictionary()


def once(view: ModuleView, find: Callable[[_Node, ModuleView], _Fact], node: _Node) -> _Fact:
    """``find(node, view)``, remembered as long as the view lives."""
    memory = _MEMORY.get(view)
    if memory is None:
        memory = _MEMORY[view] = {}
    key = (find, node)
    if key not in memory:
        memory[key] = find(node, view)
    return cast(_Fact, memory[key])


def _walked(node: ast.AST, view: ModuleView) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(node))


def walk(view: ModuleView, node: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of ``ast.walk``; for functions, classes and modules, which are walked often."""
    return once(view, _walked, node)


def _own_returns(function: Function, view: ModuleView) -> tuple[ast.Return, ...]:
    return tuple(
        each
        for each in walk(view, function)
        if isinstance(each, ast.Return) and view.source.function_of(each) is function
    )


def own_returns(function: Function, view: ModuleView) -> tuple[ast.Return, ...]:
    """The return statements of a function without those of functions inside it."""
    return once(view, _own_returns, function)


def _is_generator(function: Function, view: ModuleView) -> bool:
    return any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) and view.source.function_of(each) is function
        for each in walk(view, function)
    )


def is_generator(function: Function, view: ModuleView) -> bool:
    return once(view, _is_generator, function)


def _loaded(function: Function, view: ModuleView) -> frozenset[str]:
    return frozenset(
        each.id
        for each in walk(view, function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    )


def loaded_names(function: Function, view: ModuleView) -> frozenset[str]:
    """Identifiers that a function reads."""
    return once(view, _loaded, function)


def _unpacked(tree: ast.Module, view: ModuleView) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in walk(view, tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called, target = node.value.func, node.targets[0]
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if isinstance(target, ast.Tuple):
            found.setdefault(name, len(target.elts))
    return found


def unpacked_into(function: Function, view: ModuleView) -> int:
    """How many values callers in the same file unpack the function's result into; 0 when none does."""
    return once(view, _unpacked, view.source.tree).get(function.name, 0)


def _attribute_uses(tree: ast.Module, view: ModuleView) -> dict[str, tuple[bool, bool]]:
    found: dict[str, tuple[bool, bool]] = {}
    for each in walk(view, tree):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load):
            parent = view.source.parents.get(each)
            called = isinstance(parent, ast.Call) and parent.func is each
            before = found.get(each.attr, (False, False))
            found[each.attr] = (before[0] or called, before[1] or not called)
    return found


def attribute_uses(name: str, view: ModuleView) -> tuple[bool, bool]:
    """Whether the file calls an attribute of that name, and whether it reads one without a call."""
    return once(view, _attribute_uses, view.source.tree).get(name, (False, False))


def functions(view: ModuleView) -> tuple[Function, ...]:
    """Every function of the file."""
    return once(view, _functions, view.source.tree)


def _functions(tree: ast.Module, view: ModuleView) -> tuple[Function, ...]:
    return tuple(each for each in walk(view, tree) if isinstance(each, FUNCTIONS))
