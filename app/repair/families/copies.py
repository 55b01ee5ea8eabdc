"""Aliasing: values shared where a copy is meant, and containers changed while they are iterated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import first_real
from ..edits import insert_before, replace
from ..facts import once, walk
from ..family import Family, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Function

_LISTS = frozenset(("append", "extend", "insert", "sort", "reverse"))
_SETS = frozenset(("add", "discard", "intersection_update", "difference_update"))
_ANY = frozenset(("pop", "remove", "clear"))
_STORING = ("append", "add", "insert", "appendleft", "put", "setdefault")
_LITERALS = {"[]": "list", "{}": "dict", "set()": "set", "list()": "list", "dict()": "dict"}


class Copies(Family):
    name = "copy"
    prior = 0.72
    fault = "shared one object where each needs its own"
    boosts = {"RuntimeError": 1.4}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        function = view.source.function_of(node)
        if function is None:
            return
        kinds = once(view, _kinds, view.source.tree)
        if isinstance(node, ast.Return) and node.value is not None:
            yield from self._handed_out(node.value, function, kinds, view)
        elif isinstance(node, ast.Assign):
            yield from self._stored(node, function, kinds, view)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield from self._iterated(node, view)
        elif isinstance(node, ast.Call):
            yield from self._appended(node, function, kinds, view)
            yield from self._emptied(node, function, kinds, view)
        elif (
            isinstance(node, ast.Yield)
            and isinstance(node.value, ast.Name)
            and node.value.id in kinds.changed(function)
        ):
            yield from _copied(node.value, function, kinds, view, 0.9)
        if isinstance(node, ast.stmt) and node is first_real(function):
            yield from self._arguments(node, function, kinds, view)

    def _handed_out(
        self, value: ast.expr, function: Function, kinds: _Kinds, view: ModuleView
    ) -> Iterator[Proposal]:
        if (
            isinstance(value, ast.Attribute)
            and isinstance(value.value, ast.Name)
            and value.value.id == "self"
        ):
            yield from _copied(value, function, kinds, view, 0.85 if kinds.of(value, function) else 0.4)
        elif isinstance(value, (ast.Call, ast.Subscript)):
            yield from self._deeper(value, view)

    def _stored(
        self, node: ast.Assign, function: Function, kinds: _Kinds, view: ModuleView
    ) -> Iterator[Proposal]:
        value, target = node.value, node.targets[0]
        if isinstance(value, (ast.Name, ast.Attribute)) and isinstance(
            target, (ast.Name, ast.Attribute, ast.Subscript)
        ):
            place = ast.unparse(target)
            owner = view.source.class_of(function)
            changed = place in kinds.changed(function)
            if owner is not None and place.startswith("self."):
                changed = changed or any(place in kinds.changed(each) for each in view.methods(owner))
            weight = 0.95 if changed else 0.4
            yield from _copied(value, function, kinds, view, weight, place)
        elif isinstance(value, (ast.Call, ast.Subscript)):
            yield from self._deeper(value, view)

    def _deeper(self, value: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        """A copy of the outer container only, where the inner ones change too."""
        base: ast.expr | None = None
        if isinstance(value, ast.Call) and not value.keywords:
            if isinstance(value.func, ast.Name) and value.func.id == "list" and len(value.args) == 1:
                base = value.args[0]
            elif isinstance(value.func, ast.Attribute) and value.func.attr == "copy" and not value.args:
                base = value.func.value
            elif ast.unparse(value.func) == "dict.fromkeys" and len(value.args) == 2:
                keys, start = (view.source.segment(each) for each in value.args)
                if start in _LITERALS:
                    text = f"{{key: {start} for key in {keys}}}"
                    yield Proposal(replace(view, value, text), f"makes a new {start} for every key", 1.0)
                return
            elif isinstance(value.func, ast.Name) and value.func.id == "dict" and len(value.args) == 1:
                inner = view.source.segment(value.args[0])
                for copy in ("list", "dict", "set"):
                    text = f"{{key: {copy}(value) for key, value in {inner}.items()}}"
                    yield Proposal(replace(view, value, text), "copies the values too", 0.5)
                return
        elif isinstance(value, ast.Subscript) and view.source.segment(value).endswith("[:]"):
            base = value.value
        if isinstance(base, (ast.Name, ast.Attribute)):
            text = view.source.segment(base)
            for copy in ("list", "dict"):
                new = f"[{copy}(each) for each in {text}]"
                yield Proposal(replace(view, value, new), "copies the items too", 0.6)

    def _iterated(self, node: ast.For | ast.AsyncFor, view: ModuleView) -> Iterator[Proposal]:
        """A container that its own loop changes."""
        text = view.source.segment(node.iter)
        root = node.iter
        if isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute) and not root.args:
            root = root.func.value  # .items(), .keys(), .values()
        base = ast.unparse(root)
        if not isinstance(root, (ast.Name, ast.Attribute)):
            return
        weight = 1.0 if base in _mutated(node.body) else 0.0
        owner = view.source.class_of(node)
        if not weight and owner is not None and base.startswith("self."):
            # What the loop calls may change it through another method.
            kinds = once(view, _kinds, view.source.tree)
            elsewhere = any(base in kinds.changed(each) for each in view.methods(owner))
            calls = any(isinstance(each, ast.Call) for one in node.body for each in ast.walk(one))
            weight = 0.7 if elsewhere and calls else 0.0
        if weight:
            yield Proposal(
                replace(view, node.iter, f"list({text})"), f"iterates over a copy of {base}", weight
            )

    def _appended(
        self, node: ast.Call, function: Function, kinds: _Kinds, view: ModuleView
    ) -> Iterator[Proposal]:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _STORING:
            return
        for argument in node.args:
            if isinstance(argument, ast.Name) and argument.id in kinds.changed(function):
                yield from _copied(argument, function, kinds, view, 0.95)

    def _emptied(
        self, node: ast.Call, function: Function, kinds: _Kinds, view: ModuleView
    ) -> Iterator[Proposal]:
        """``x.clear()`` also empties what was handed out before; a new container does not."""
        parent = view.source.parents.get(node)
        called = node.func
        if not isinstance(called, ast.Attribute) or called.attr != "clear" or node.args:
            return
        if not isinstance(parent, ast.Expr) or not isinstance(called.value, (ast.Name, ast.Attribute)):
            return
        text, kind = view.source.segment(called.value), kinds.of(called.value, function)
        made = {"list": "[]", "dict": "{}", "set": "set()"}
        for empty in [made[kind]] if kind else list(made.values()):
            yield Proposal(replace(view, node, f"{text} = {empty}"), f"starts a new {text}", 0.9)

    def _arguments(
        self, node: ast.stmt, function: Function, kinds: _Kinds, view: ModuleView
    ) -> Iterator[Proposal]:
        """A parameter that the function changes in place."""
        changed = kinds.changed(function)
        for name in parameters(function):
            if name in ("self", "cls") or name not in changed:
                continue
            guesses = [changed[name]] if changed[name] else ["list", "dict", "set"]
            for rank, kind in enumerate(guesses):
                edits = insert_before(view, node, [f"{name} = {kind}({name})"])
                if edits is not None:
                    yield Proposal(edits, f"changes a copy of {name}", 0.85 - 0.1 * rank)


class _Kinds:
    """What kind of container names and attributes hold, as far as the file shows it."""

    def __init__(self, tree: ast.Module, view: ModuleView) -> None:
        self._view = view
        self._changed: dict[Function, dict[str, str]] = {}
        self._initial: dict[tuple[ast.AST, str], str] = {}
        for node in walk(view, tree):
            if isinstance(node, ast.Assign):
                text = view.source.segment(node.value)
                kind = _LITERALS.get(text, "")
                if isinstance(node.value, (ast.ListComp, ast.List)) or text.startswith(("list(", "sorted(")):
                    kind = "list"
                elif isinstance(node.value, (ast.DictComp, ast.Dict)) or text.startswith("dict("):
                    kind = "dict"
                elif isinstance(node.value, (ast.SetComp, ast.Set)) or text.startswith("set("):
                    kind = "set"
                target = node.targets[0]
                if not kind or not isinstance(target, (ast.Name, ast.Attribute)):
                    continue
                scope = (
                    view.source.class_of(node)
                    if isinstance(target, ast.Attribute)
                    else view.source.function_of(node)
                )
                if scope is not None:
                    self._initial.setdefault((scope, ast.unparse(target)), kind)

    def changed(self, function: Function) -> dict[str, str]:
        """Expressions that a function changes in place -> their kind, "" when unknown."""
        if function not in self._changed:
            self._changed[function] = _mutated(function.body)
        return self._changed[function]

    def of(self, value: ast.expr, function: Function) -> str:
        text = ast.unparse(value)
        owner = self._view.source.class_of(function)
        known = self._initial.get((function, text)) or (self._initial.get((owner, text)) if owner else None)
        return known or self.changed(function).get(text, "")


def _copied(
    value: ast.expr, function: Function, kinds: _Kinds, view: ModuleView, weight: float, place: str = ""
) -> Iterator[Proposal]:
    if not view.source.editable(value):
        return
    text = view.source.segment(value)
    kind = kinds.of(value, function) or (kinds.changed(function).get(place, "") if place else "")
    if not kind and place.startswith("self."):
        owner = view.source.class_of(function)
        found = (kinds.changed(each).get(place, "") for each in view.methods(owner)) if owner else ()
        kind = next((each for each in found if each), "")
    spelled = {f"{kind}({text})": 1.0} if kind else {f"list({text})": 0.9, f"dict({text})": 0.8}
    spelled.setdefault(f"{text}.copy()", 0.85)
    if not kind:
        spelled[f"set({text})"] = 0.6
    for new, share in spelled.items():
        yield Proposal(replace(view, value, new), f"copies {text} instead of sharing it", weight * share)


def _mutated(body: list[ast.stmt]) -> dict[str, str]:
    """Expressions that statements change in place -> kind of container, "" when unknown."""
    found: dict[str, str] = {}

    def note(base: ast.expr, kind: str) -> None:
        if isinstance(base, (ast.Name, ast.Attribute)):
            text = ast.unparse(base)
            found[text] = found.get(text) or kind

    for statement in body:
        for node in (statement, *ast.walk(statement)):
            if isinstance(node, FUNCTIONS):
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                method = node.func.attr
                if method in _LISTS:
                    note(node.func.value, "list")
                elif method in _SETS:
                    note(node.func.value, "set")
                elif method in ("update", "setdefault", "popitem"):
                    note(node.func.value, "dict")
                elif method in _ANY:
                    note(node.func.value, "")
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                textual = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
                sliced = isinstance(node.slice, (ast.Slice, ast.UnaryOp))
                number = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
                note(node.value, "dict" if textual else "list" if sliced or number else "")
    return found


def _kinds(tree: ast.Module, view: ModuleView) -> _Kinds:
    return _Kinds(tree, view)
