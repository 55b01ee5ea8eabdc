"""What a loop forgot: a step, a counter, a visited mark, a reset, the last group, a stored result."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..blocks import LEAVING, blocks_of, own_nodes, stored_in
from ..edits import insert_after, insert_before
from ..facts import once, walk
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import LOOPS, Function

_GROWING = {"add", "append", "update", "extend", "insert", "appendleft", "setdefault", "push"}
_LITERALS = ("[]", "{}", "set()", "0", "0.0", '""', "''", "None", "1", "False", "True", "dict()", "list()")
_LINKS = ("next", "parent", "link", "following", "previous", "prev", "tail", "rest", "cause", "left", "right")
_MOST_STEPS = 8


@dataclass(frozen=True)
class _Locals:
    """What a function does with its local collections and counters."""

    initial: dict[str, str]
    """Name -> text of its first literal value."""
    grown: frozenset[str]
    """Expressions that something is added to."""
    updated: frozenset[str]
    """Names stored more than once."""


class LoopUpdates(Family):
    name = "loop-update"
    prior = 0.55
    trust = 0.6
    fault = "forgot to update what it keeps"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt):
            return
        function = view.source.function_of(node)
        if function is None:
            return
        known = once(view, _locals, function)
        if isinstance(node, ast.While):
            yield from self._step(node, view)
        if isinstance(node, LOOPS):
            yield from self._last_group(node, view)
            yield from self._fresh(node, known, view)
        if isinstance(node, ast.If):
            yield from self._mark(node, known, view)
        if isinstance(node, ast.Return):
            yield from self._store(node, function, known, view)
        block = view.source.block_of(node)
        if block is not None and node in (block[0], block[-1]) and view.source.loop_of(node) is not None:
            yield from self._counters(node, known, view, first=block[-1] is not node)
        if block is not None and block[0] is node and block[-1] is node and isinstance(node, ast.If):
            yield from self._counters(node, known, view, first=True)
        if block is not None and block[-1] is node and view.source.loop_of(node) is not None:
            yield from self._reset(node, block, known, view)
        elif block is not None and block[-1] is not node:
            yield from self._reset_after(node, block, known, view)

    def _step(self, node: ast.While, view: ModuleView) -> Iterator[Proposal]:
        """A loop whose condition never changes."""
        moved = _changed(node)
        last = node.body[-1]
        for name, steps in _steps(node, view).items():
            if name in moved:
                continue
            for step, weight in list(steps.items())[:_MOST_STEPS]:
                edits = insert_before(view, last, [step]) if isinstance(last, LEAVING) else None
                edits = edits or insert_after(view, last, [step])
                if edits is not None:
                    yield Proposal(edits, f"adds `{step}` to the loop", weight)

    def _mark(self, node: ast.If, known: _Locals, view: ModuleView) -> Iterator[Proposal]:
        """A collection that is asked but never told."""
        for each in own_nodes(node):
            if not isinstance(each, ast.Compare) or not isinstance(each.ops[0], (ast.In, ast.NotIn)):
                continue
            collection, item = ast.unparse(each.comparators[0]), view.source.segment(each.left)
            if collection in known.grown or "\n" in item or "(" in collection:
                continue
            initial = known.initial.get(collection, "")
            if not initial and "." not in collection:
                continue
            method = {"[]": "append", "list()": "append"}.get(initial, "add")
            lines = [f"{collection}.{method}({item})"]
            if initial in ("{}", "dict()"):
                lines = [f"{collection}[{item}] = True", f"{collection}[{item}] = {item}"]
            absent = isinstance(each.ops[0], ast.NotIn)
            for line in lines:
                places = [
                    insert_before(view, node.body[0], [line]),
                    insert_after(view, node.body[-1], [line]),
                ]
                after = [insert_after(view, node, [line])]
                loop = view.source.loop_of(node)
                if loop is not None:
                    after.append(insert_after(view, loop.body[-1], [line]))
                ordered = places + after if absent else after + places
                for rank, edits in enumerate(ordered):
                    if edits is not None:
                        yield Proposal(edits, f"adds `{line}`", 1.0 - 0.12 * rank)

    def _counters(
        self, node: ast.stmt, known: _Locals, view: ModuleView, *, first: bool
    ) -> Iterator[Proposal]:
        """Names that start at a literal, are used, and never change."""
        loop = view.source.loop_of(node)
        if loop is None:
            return
        item = next(iter(sorted(stored_in(loop.target))), "") if not isinstance(loop, ast.While) else ""
        for name, initial in known.initial.items():
            if name in known.updated or name in known.grown or name not in view.names_at(node):
                continue
            lines: tuple[str, ...] = ()
            if initial in ("0", "1"):
                lines = (f"{name} += 1", f"{name} -= 1")
            elif initial in ("[]", "list()") and item:
                lines = (f"{name}.append({item})",)
            elif initial == "set()" and item:
                lines = (f"{name}.add({item})",)
            elif initial in ("True", "False"):
                lines = (f"{name} = {initial == 'False'}",)
            elif initial == "None" and item:
                lines = (f"{name} = {item}",)
            for rank, line in enumerate(lines):
                before = first or isinstance(node, LEAVING)
                edits = insert_before(view, node, [line]) if before else insert_after(view, node, [line])
                if edits is not None:
                    yield Proposal(edits, f"adds `{line}`", (0.8 if first else 0.9) - 0.4 * rank)

    def _reset(
        self, node: ast.stmt, block: list[ast.stmt], known: _Locals, view: ModuleView
    ) -> Iterator[Proposal]:
        """A value that should start again at the end of a block."""
        parent = view.source.parents.get(node)
        if not isinstance(parent, (ast.If, *LOOPS)) or isinstance(node, LEAVING):
            return
        handed = _handed_on(block)
        set_here = {name for each in block for name in stored_in(each)}
        for name, initial in known.initial.items():
            if name in set_here or name not in view.names_at(node):
                continue
            if name not in known.updated and name not in known.grown:
                continue
            weight = 1.0 if name in handed else 0.4
            edits = insert_after(view, node, [f"{name} = {initial}"])
            if edits is not None:
                yield Proposal(edits, f"starts {name} again with {initial}", weight)

    def _reset_after(
        self, node: ast.stmt, block: list[ast.stmt], known: _Locals, view: ModuleView
    ) -> Iterator[Proposal]:
        """The same in the middle of a block, only where the value was just handed on."""
        if view.source.loop_of(node) is None:
            return
        for name in sorted(_handed_on([node])):
            initial = known.initial.get(name)
            if initial is not None and initial not in ("None",):
                edits = insert_after(view, node, [f"{name} = {initial}"])
                if edits is not None:
                    yield Proposal(edits, f"starts {name} again with {initial}", 0.8)

    def _fresh(self, node: ast.stmt, known: _Locals, view: ModuleView) -> Iterator[Proposal]:
        """A value that should start again in every round of a loop around a loop."""
        body = getattr(node, "body", None)
        if not body or not any(isinstance(each, LOOPS) for each in ast.walk(node) if each is not node):
            return
        inside = stored_in(node)
        for name, initial in known.initial.items():
            if name in inside:
                edits = insert_before(view, body[0], [f"{name} = {initial}"])
                if edits is not None:
                    yield Proposal(edits, f"starts {name} with {initial} in every round", 0.5)

    def _last_group(self, node: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """What a loop hands on when a group ends, handed on after the loop as well."""
        following = view.source.block_of(node)
        position = following.index(node) if following else 0
        after = [ast.dump(each) for each in following[position + 1 :]] if following else []
        for each in ast.walk(node):
            if not isinstance(each, ast.If):
                continue
            for block in blocks_of(each):
                for statement in block:
                    handed = sorted(_handed_on([statement]))
                    if not isinstance(statement, ast.Expr) or not handed or ast.dump(statement) in after:
                        continue
                    text = view.source.segment(statement)
                    if "\n" in text:
                        continue
                    guarded = insert_after(view, node, [f"if {handed[0]}:", f"\t{text}"])
                    plain = insert_after(view, node, [text])
                    if guarded is not None:
                        yield Proposal(guarded, f"adds `if {handed[0]}: {text}` after the loop", 0.95)
                    if plain is not None:
                        yield Proposal(plain, f"adds `{text}` after the loop", 0.85)

    def _store(
        self, node: ast.Return, function: Function, known: _Locals, view: ModuleView
    ) -> Iterator[Proposal]:
        """A result that is looked up but never kept."""
        if node.value is None or not view.source.alone_on_lines(node):
            return
        value = view.source.segment(node.value)
        if "\n" in value:
            return
        for each in walk(view, function):
            if not isinstance(each, ast.Compare) or not isinstance(each.ops[0], (ast.In, ast.NotIn)):
                continue
            place = f"{ast.unparse(each.comparators[0])}[{ast.unparse(each.left)}]"
            if place.partition("[")[0] in known.grown or place in value or "(" in place:
                continue
            if isinstance(node.value, ast.Name):
                edits = insert_before(view, node, [f"{place} = {value}"])
            else:
                start, end = view.source.span(node)
                first = insert_before(view, node, [f"{place} = {value}"])
                if first is None:
                    continue
                edits = (*first, type(first[0])(start, end, f"return {place}"))
            if edits is not None:
                yield Proposal(edits, f"keeps the result in {place}", 0.9)


def _locals(function: Function, view: ModuleView) -> _Locals:
    initial: dict[str, str] = {}
    grown: set[str] = set()
    stores: dict[str, int] = {}
    for node in walk(view, function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = view.source.segment(node.value)
            if text in _LITERALS:
                initial.setdefault(node.targets[0].id, text)
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING
        ):
            grown.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            grown.add(ast.unparse(node.value))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
    return _Locals(initial, frozenset(grown), frozenset(name for name in stores if stores[name] > 1))


def _changed(loop: ast.While) -> set[str]:
    """Names that the body of a loop stores, or calls methods of."""
    changed: set[str] = set()
    for statement in loop.body:
        changed |= stored_in(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                changed.add(ast.unparse(node.func.value))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                changed.add(ast.unparse(node))
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                changed.add(ast.unparse(node.value))
    return changed


def _steps(loop: ast.While, view: ModuleView) -> dict[str, dict[str, float]]:
    """Value in the loop's condition -> statements that would bring it nearer to the end, with weights."""
    found: dict[str, dict[str, float]] = {}
    for node in ast.walk(loop.test):
        if isinstance(node, ast.Name) or (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        ):
            parent = view.source.parents.get(node)
            if not isinstance(parent, ast.Call) or parent.func is not node:
                name = ast.unparse(node)
                if name != "self":
                    found.setdefault(name, _steps_of(name, node, loop))
    return found


def _steps_of(name: str, node: ast.AST, loop: ast.While) -> dict[str, float]:
    steps: dict[str, float] = {}
    for each in ast.walk(loop):
        if isinstance(each, ast.BinOp) and ast.unparse(each.left) == name:
            right = ast.unparse(each.right)
            if isinstance(each.op, ast.Mod):
                steps[f"{name} //= {right}"] = 1.0
            elif isinstance(each.op, ast.BitAnd):
                steps[f"{name} >>= 1"] = 1.0
        elif isinstance(each, ast.Attribute) and ast.unparse(each.value) == name and each.attr in _LINKS:
            steps[f"{name} = {name}.{each.attr}"] = 1.0
        elif isinstance(each, ast.Compare):
            if ast.unparse(each.left) == name:
                less = isinstance(each.ops[0], (ast.Lt, ast.LtE, ast.NotEq))
                first, second = (f"{name} += 1", f"{name} -= 1") if less else (f"{name} -= 1", f"{name} += 1")
                steps.setdefault(first, 0.95)
                steps.setdefault(second, 0.55)
            elif ast.unparse(each.comparators[-1]) == name:
                steps.setdefault(f"{name} -= 1", 0.75)
                steps.setdefault(f"{name} += 1", 0.6)
    if not steps:
        steps = {
            f"{name} -= 1": 0.7,
            f"{name} //= 10": 0.5,
            f"{name} = {name}[1:]": 0.5,
            f"{name}.pop()": 0.4,
        }
    uses_link = any(
        isinstance(each, ast.Attribute) and ast.unparse(each.value) == name for each in ast.walk(loop)
    )
    if uses_link:
        for link in _LINKS[:4]:
            steps.setdefault(f"{name} = {name}.{link}", 0.8)
    return dict(sorted(steps.items(), key=lambda pair: -pair[1]))


def _handed_on(statements: list[ast.stmt]) -> set[str]:
    """Names that statements put into a collection, yield or store whole."""
    found: set[str] = set()
    for statement in statements:
        value: ast.expr | None = None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = statement.value
            if isinstance(called.func, ast.Attribute) and called.func.attr in (
                "append",
                "add",
                "extend",
                "put",
            ):
                for argument in called.args:
                    found |= {each.id for each in ast.walk(argument) if isinstance(each, ast.Name)}
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
            value = statement.value.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            value = statement.value
        if value is not None:
            found |= {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    return found
