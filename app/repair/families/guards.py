"""Missing guards: None, empty, zero and absent keys, answered by return, continue, default or raise."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import insert_before
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Function

_MOST_SUBJECTS = 4
_MOST_EXITS = 7
_EMPTY = {"tuple": "()", "list": "[]", "sorted": "[]", "dict": "{}", "set": "set()", "iter": "iter(())"}


class Guards(Family):
    name = "guard"
    prior = 0.7
    harm = Harm.LOOSENS
    at_fault = True
    boosts = {  # noqa: RUF012
        "TypeError": 1.4,
        "AttributeError": 1.4,
        "IndexError": 1.3,
        "KeyError": 1.3,
        "ZeroDivisionError": 1.4,
        "StopIteration": 1.2,
        "RecursionError": 1.4,
        "UnboundLocalError": 1.1,
    }
    fault = "did not guard against a special value"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return
        function = view.source.function_of(node)
        if function is None or view.source.is_docstring(getattr(node, "value", node)):
            return
        subjects = _subjects(node, function)
        for rank, (subject, kinds) in enumerate(subjects[:_MOST_SUBJECTS]):
            nearer = 1.0 - 0.1 * rank
            for condition, weight in _conditions(subject, kinds):
                yield from self._exits(node, function, view, condition, subject, weight * nearer)
            yield from self._defaults(node, view, subject, kinds, 0.55 * nearer)
        if function.body and node is _first_real(function):
            yield from self._refusals(node, function, view)
            yield from self._base_cases(node, function, view)
        yield from self._absent_keys(node, function, view)

    def _exits(
        self,
        node: ast.stmt,
        function: Function,
        view: ModuleView,
        condition: str,
        subject: str,
        weight: float,
    ) -> Iterator[Proposal]:
        for rank, leave in enumerate(_exits(node, function, view, subject)):
            edits = insert_before(view, node, [f"if {condition}:", f"\t{leave}"])
            if edits is not None:
                yield Proposal(
                    edits, f"adds the guard `if {condition}: {leave}`", weight * (1.0 - 0.1 * rank)
                )

    def _defaults(
        self, node: ast.stmt, view: ModuleView, subject: str, kinds: frozenset[str], weight: float
    ) -> Iterator[Proposal]:
        if "." in subject and not subject.startswith("self."):
            return
        values = ["[]", "{}", '""', "0"]
        if "attribute" in kinds:
            values = ["{}", "[]", '""']
        elif "arithmetic" in kinds:
            values = ["0", "1"]
        for rank, value in enumerate(values):
            edits = insert_before(view, node, [f"if {subject} is None:", f"\t{subject} = {value}"])
            if edits is not None:
                yield Proposal(edits, f"uses {value} when {subject} is None", weight * (1.0 - 0.1 * rank))

    def _refusals(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """Raises what the tests waited for."""
        for error in view.evidence.expected:
            for name in parameters(function):
                if name in ("self", "cls"):
                    continue
                for condition, reason in (
                    (f"{name} is None", "must not be None"),
                    (f"not {name}", "must not be empty"),
                    (f"{name} < 0", "must not be negative"),
                    (f"{name} <= 0", "must be positive"),
                    (f"not isinstance({name}, str)", "must be a string"),
                    (f"not isinstance({name}, int)", "must be an integer"),
                ):
                    lines = [f"if {condition}:", f'\traise {error}("{name} {reason}")']
                    edits = insert_before(view, node, lines)
                    if edits is not None:
                        yield Proposal(edits, f"raises {error} if {condition}", 1.0, Harm.PRECISE)

    def _base_cases(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """A recursive function's missing end."""
        if not any(
            isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] == function.name
            for each in ast.walk(function)
        ):
            return
        for name in parameters(function):
            if name in ("self", "cls"):
                continue
            for condition in (f"{name} <= 0", f"{name} <= 1", f"not {name}"):
                for value in ("0", "1", name, "[]", "None"):
                    edits = insert_before(view, node, [f"if {condition}:", f"\treturn {value}"])
                    if edits is not None:
                        yield Proposal(edits, f"adds the base case `if {condition}: return {value}`", 0.7)

    def _absent_keys(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        for each in _own_nodes(node):
            if not isinstance(each, ast.Subscript) or isinstance(each.slice, (ast.Slice, ast.Tuple)):
                continue
            if isinstance(each.ctx, ast.Store) or isinstance(each.slice, ast.UnaryOp):
                continue
            condition = f"{view.source.segment(each.slice)} not in {view.source.segment(each.value)}"
            if "\n" in condition:
                continue
            for rank, leave in enumerate(_exits(node, function, view, "")):
                edits = insert_before(view, node, [f"if {condition}:", f"\t{leave}"])
                if edits is not None:
                    yield Proposal(
                        edits, f"adds the guard `if {condition}: {leave}`", 0.6 * (1.0 - 0.1 * rank)
                    )


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Nodes of a statement without those of statements inside it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.Lambda)):
            yield child
            yield from _inner(child)


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda):
            yield child
            yield from _inner(child)


def _first_real(function: Function) -> ast.stmt | None:
    body = function.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[1] if len(body) > 1 else None
    return body[0]


def _subjects(statement: ast.stmt, function: Function) -> list[tuple[str, frozenset[str]]]:
    """Names and attributes that the statement relies on being something, with how they are used."""
    uses: dict[str, set[str]] = {}
    assigned = {
        node.id
        for node in _own_nodes(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }

    def use(node: ast.AST | None, kind: str) -> None:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return
        text = ast.unparse(node)
        if text not in ("self", "cls") and text.count(".") <= 2 and not (assigned & {text}):
            uses.setdefault(text, set()).add(kind)

    local = set(parameters(function)) | {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    nodes = [statement, *_own_nodes(statement)]
    for node in nodes:
        if isinstance(node, ast.Attribute):
            use(node.value, "attribute")
        elif isinstance(node, ast.Subscript):
            use(node.value, "item")
        elif isinstance(node, (ast.For, ast.comprehension)):
            use(node.iter, "iterated")
        elif isinstance(node, ast.Call):
            for argument in node.args:
                use(argument, "argument")
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Name, ast.Attribute)):
            # ``x += 1`` reads x although its context says that it is stored.
            uses.setdefault(ast.unparse(node.target), set()).add("arithmetic")
        elif isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
                divisor = node.right
                if isinstance(divisor, ast.Call) and len(divisor.args) == 1:
                    divisor = divisor.args[0]
                use(divisor, "divisor")
            use(node.left, "arithmetic")
            use(node.right, "arithmetic")
        elif isinstance(node, ast.Compare):
            use(node.left, "compared")
        elif isinstance(node, (ast.If, ast.While, ast.Return)):
            use(getattr(node, "test", getattr(node, "value", None)), "value")
    ordered = {"divisor": 0, "attribute": 1, "item": 1, "iterated": 1, "arithmetic": 2, "compared": 2}
    found = [
        (text, frozenset(kinds))
        for text, kinds in uses.items()
        if text.split(".")[0] in local | {"self", "cls"}
    ]
    return sorted(found, key=lambda pair: min(ordered.get(kind, 3) for kind in pair[1]))


def _conditions(subject: str, kinds: frozenset[str]) -> Iterator[tuple[str, float]]:
    if "divisor" in kinds:
        yield f"not {subject}", 1.0
        yield f"{subject} == 0", 0.8
        return
    sized = bool(kinds & {"item", "iterated", "argument", "value"})
    yield f"{subject} is None", 1.0
    yield f"not {subject}", 0.95 if sized else 0.6


def _exits(statement: ast.stmt, function: Function, view: ModuleView, subject: str) -> list[str]:
    """Ways to leave before the statement, likeliest first."""
    leaves: dict[str, None] = {}
    if view.source.loop_of(statement) is not None:
        leaves["continue"] = None
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    arity = _unpacked_into(function, view)
    if arity:
        # Whoever calls it takes that many values: fewer would only move the failure.
        leaves[f"return {', '.join(['None'] * arity)}"] = None
    for node in returns:
        if node.value is None:
            leaves["return"] = None
        elif isinstance(node.value, ast.Constant):
            leaves[f"return {view.source.segment(node.value)}"] = None
    for node in returns:
        if isinstance(node.value, (ast.List, ast.ListComp)):
            leaves["return []"] = None
        elif isinstance(node.value, (ast.Dict, ast.DictComp)):
            leaves["return {}"] = None
        elif isinstance(node.value, (ast.Compare, ast.BoolOp)):
            leaves["return False"] = None
            leaves["return True"] = None
        elif isinstance(node.value, (ast.BinOp,)):
            leaves["return 0"] = None
        elif isinstance(node.value, ast.Tuple):
            leaves[f"return {', '.join(['None'] * len(node.value.elts))}"] = None
        elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            empty = _EMPTY.get(node.value.func.id)
            if empty:
                leaves[f"return {empty}"] = None
    for name in view.evidence.names:
        # What the test compares with, when the module knows it by the same name.
        if name in view.module_names and name != function.name and returns:
            leaves[f"return {name}"] = None
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function)) or not returns:
        leaves.setdefault("return")
    else:
        for value in ("None", "[]", '""', "0", "False"):
            leaves.setdefault(f"return {value}")
        if subject and "." not in subject:
            leaves.setdefault(f"return {subject}")
    return list(leaves)[: _MOST_EXITS + 1]


def _unpacked_into(function: Function, view: ModuleView) -> int:
    """How many values callers in the same file unpack the function's result into; 0 when none does."""
    for node in ast.walk(view.source.tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        target = node.targets[0]
        if name == function.name and isinstance(target, ast.Tuple):
            return len(target.elts)
    return 0
