"""Missing guards: None, empty, zero and absent keys, answered by return, continue, default or raise."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ..blocks import first_real, own_nodes
from ..edits import insert_before
from ..exits import exits
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Function

_MOST_SUBJECTS = 4
_MOST_EXITS = 8


class Guards(Family):
    name = "guard"
    prior = 0.7
    trust = 0.85
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
        subjects = _subjects(node, function, view)
        for rank, (subject, kinds) in enumerate(subjects[:_MOST_SUBJECTS]):
            nearer = 1.0 - 0.1 * rank
            for condition, weight in _conditions(subject, kinds):
                yield from self._exits(node, function, view, condition, subject, weight * nearer)
            yield from self._defaults(node, view, subject, kinds, 0.55 * nearer)
        for one, two in _made_together(node, [subject for subject, _ in subjects[:_MOST_SUBJECTS]], view):
            condition = f"{one} is None or {two} is None"
            yield from self._exits(node, function, view, condition, one, 0.6)
        yield from self._middle(node, function, view)
        if node is first_real(function):
            yield from self._refusals(node, function, view)
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
        for leave, share in exits(node, function, view, subject, _MOST_EXITS):
            edits = insert_before(view, node, [f"if {condition}:", f"\t{leave}"])
            if edits is not None:
                yield Proposal(edits, f"adds the guard `if {condition}: {leave}`", weight * share)

    def _middle(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """The round of two nested loops in which both values are zero, or the same."""
        inner = view.source.loop_of(node)
        outer = view.source.loop_of(inner) if inner is not None else None
        if not isinstance(inner, ast.For) or not isinstance(outer, ast.For) or inner.body[0] is not node:
            return
        if isinstance(inner.target, ast.Name) and isinstance(outer.target, ast.Name):
            one, two = outer.target.id, inner.target.id
            for condition in (f"{one} == 0 and {two} == 0", f"{one} == {two}"):
                edits = insert_before(view, node, [f"if {condition}:", "\tcontinue"])
                if edits is not None:
                    yield Proposal(edits, f"leaves out the round with {condition}", 0.6)

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

    def _absent_keys(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        for each in own_nodes(node):
            if not isinstance(each, ast.Subscript) or isinstance(each.slice, (ast.Slice, ast.Tuple)):
                continue
            if isinstance(each.ctx, ast.Store) or isinstance(each.slice, ast.UnaryOp):
                continue
            condition = f"{view.source.segment(each.slice)} not in {view.source.segment(each.value)}"
            if "\n" in condition:
                continue
            for leave, share in exits(node, function, view, "", _MOST_EXITS):
                edits = insert_before(view, node, [f"if {condition}:", f"\t{leave}"])
                if edits is not None:
                    yield Proposal(edits, f"adds the guard `if {condition}: {leave}`", 0.6 * share)


def _subjects(statement: ast.stmt, function: Function, view: ModuleView) -> list[tuple[str, frozenset[str]]]:
    """Names and attributes that the statement relies on being something, with how they are used."""
    uses: dict[str, set[str]] = {}
    assigned = {
        node.id
        for node in own_nodes(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }

    def use(node: ast.AST | None, kind: str) -> None:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return
        text = ast.unparse(node)
        if text not in ("self", "cls") and text.count(".") <= 2 and not (assigned & {text}):
            uses.setdefault(text, set()).add(kind)

    local = set(view.local_names(function))
    nodes = [statement, *own_nodes(statement)]
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
                shortened = isinstance(divisor, ast.BinOp) and isinstance(divisor.op, ast.Sub)
                for each in ast.walk(divisor) if shortened else ():
                    if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "len":
                        use(each.args[0] if each.args else None, "short")
            use(node.left, "arithmetic")
            use(node.right, "arithmetic")
        elif isinstance(node, ast.Compare):
            use(node.left, "compared")
        elif isinstance(node, (ast.If, ast.While, ast.Return)):
            use(getattr(node, "test", getattr(node, "value", None)), "value")
    ordered = {
        "divisor": 0,
        "short": 0,
        "attribute": 1,
        "item": 1,
        "iterated": 1,
        "arithmetic": 2,
        "compared": 2,
    }
    found = [
        (text, frozenset(kinds))
        for text, kinds in uses.items()
        if text.split(".")[0] in local | {"self", "cls"}
    ]
    return sorted(found, key=lambda pair: min(ordered.get(kind, 3) for kind in pair[1]))


def _made_together(node: ast.stmt, subjects: list[str], view: ModuleView) -> list[tuple[str, str]]:
    """Pairs of names made just before, of which the statement needs at least one."""
    block = view.source.block_of(node) or [node]
    position = block.index(node)
    made: dict[str, None] = {}
    for each in block[max(0, position - 2) : position]:
        if isinstance(each, ast.Assign):
            made |= dict.fromkeys(
                name.id
                for name in ast.walk(each)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            )
    return [pair for pair in itertools.combinations(made, 2) if set(pair).intersection(subjects)]


def _conditions(subject: str, kinds: frozenset[str]) -> Iterator[tuple[str, float]]:
    if "divisor" in kinds:
        yield f"not {subject}", 1.0
        yield f"{subject} == 0", 0.8
        return
    if "short" in kinds:
        yield f"len({subject}) < 2", 1.0
    sized = bool(kinds & {"item", "iterated", "argument", "value"})
    yield f"{subject} is None", 1.0
    yield f"not {subject}", 0.95 if sized else 0.6
