"""Values kept within limits: a missing, superfluous or exchanged min and max."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import insert_before, replace
from ..facts import functions
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, parameters
from ..source import Edit

_LOW = ("low", "lower", "min", "minimum", "least", "floor", "start", "first")
_HIGH = ("high", "upper", "max", "maximum", "most", "limit", "cap", "ceiling", "capacity", "size", "end")
_MOST_NAMES = 3


class ValueLimits(Family):
    name = "limit"
    prior = 0.6
    trust = 0.8
    fault = "did not keep a value within its limits"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call) and _name(node) in ("min", "max"):
            yield from self._exchanged(node, view)
            yield from self._loosened(node, view)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            yield from self._index(node, node.slice, view)
        if isinstance(node, ast.If):
            yield from self._before_check(node, view)
        for value, weight in _values(node):
            if view.source.editable(value):
                yield from self._limited(value, weight, view)

    def _exchanged(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """min and max of one nest of calls, both at once."""
        old = _name(node)
        other = "max" if old == "min" else "min"
        for each in node.args:
            if isinstance(each, ast.Call) and _name(each) == other and isinstance(each.func, ast.Name):
                edits = replace(view, node.func, other) + replace(view, each.func, old)
                yield Proposal(edits, "exchanges min and max", 1.0)

    def _loosened(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if len(node.args) != 2 or node.keywords:
            return
        for each in node.args:
            if not isinstance(each, (ast.Starred, ast.Constant)):
                text = view.source.segment(each)
                yield Proposal(replace(view, node, text), f"sets no limit to {text}", 0.5, Harm.REMOVES)

    def _index(self, node: ast.Subscript, index: ast.Name, view: ModuleView) -> Iterator[Proposal]:
        """An index past the end takes the last element, one before the start the first."""
        base = view.source.segment(node.value)
        if "\n" not in base and isinstance(node.value, (ast.Name, ast.Attribute)):
            last = f"min({index.id}, len({base}) - 1)"
            yield Proposal(replace(view, index, last), f"keeps {index.id} within {base}", 0.6)
            yield Proposal(replace(view, index, f"max({index.id}, 0)"), f"keeps {index.id} from 0 on", 0.5)

    def _before_check(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """``if index < count:`` leaves out what should count as the last one."""
        test = node.test
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
            return
        name, bound = test.left.id, view.source.segment(test.comparators[0])
        below = isinstance(test.ops[0], (ast.Lt, ast.GtE))
        if "\n" in bound or not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            return
        high = f"{name} = min({name}, {bound} - 1)" if below else f"{name} = min({name}, {bound})"
        for rank, line in enumerate((high, f"{name} = max({name}, {bound})")):
            edits = insert_before(view, node, [line])
            if edits is not None:
                yield Proposal(edits, f"adds `{line}`", 0.55 - 0.15 * rank)

    def _limited(self, value: ast.expr, weight: float, view: ModuleView) -> Iterator[Proposal]:
        text = view.source.segment(value)
        if "\n" in text:
            return
        numeric = isinstance(value, ast.BinOp)
        subtracts = any(isinstance(each, ast.Sub) for each in ast.walk(value))
        start, end = view.source.span(value)

        def wrapped(front: str, back: str) -> tuple[Edit, ...]:
            return (Edit(start, start, front), Edit(end, end, back))

        if subtracts or not numeric:
            yield Proposal(wrapped("max(0, ", ")"), "keeps it from falling below 0", weight)
        if numeric:
            yield Proposal(wrapped("max(1, ", ")"), "keeps it from falling below 1", weight * 0.6)
        for call in _bounding_calls(value, view) if isinstance(value, ast.Name) else ():
            yield Proposal(wrapped("min(", f", {call})"), f"keeps it from exceeding {call}", 0.55)
            yield Proposal(wrapped("max(", f", {call})"), f"keeps it from falling below {call}", 0.4)
        used = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
        for name in _bounds(value, view, _LOW):
            if name not in used:
                yield Proposal(wrapped(f"max({name}, ", ")"), f"keeps it from falling below {name}", weight)
                yield Proposal(
                    wrapped("max(", f", {name})"), f"keeps it from falling below {name}", weight * 0.9
                )
        for name in _bounds(value, view, _HIGH):
            if name not in used:
                yield Proposal(wrapped("min(", f", {name})"), f"keeps it from exceeding {name}", weight)
                yield Proposal(wrapped(f"min({name}, ", ")"), f"keeps it from exceeding {name}", weight * 0.9)


def _name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _values(node: ast.AST) -> Iterator[tuple[ast.expr, float]]:
    if isinstance(node, (ast.Return, ast.Assign)) and node.value is not None:
        if isinstance(node.value, (ast.BinOp, ast.Name)):
            yield node.value, 0.8 if isinstance(node.value, ast.BinOp) else 0.4
        elif isinstance(node.value, ast.Tuple):
            for each in node.value.elts:
                if isinstance(each, (ast.BinOp, ast.Name)):
                    yield each, 0.6 if isinstance(each, ast.BinOp) else 0.4
    elif isinstance(node, ast.Call) and _name(node) not in ("len", "abs", "str", "print"):
        for each in node.args:
            if isinstance(each, (ast.BinOp, ast.Name)):
                inside = 0.9 if _name(node) in ("min", "max") else 0.6
                yield each, inside if isinstance(each, ast.BinOp) else inside * 0.4
    elif isinstance(node, ast.Slice):
        for each in (node.lower, node.upper):
            if isinstance(each, (ast.BinOp, ast.Name)):
                yield each, 0.8 if isinstance(each, ast.BinOp) else 0.4
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        for each in (node.left, node.right):
            if isinstance(each, ast.BinOp):
                yield each, 0.5


def _bounding_calls(value: ast.Name, view: ModuleView) -> list[str]:
    """Calls of the module's functions whose parameters are all known here by the same names."""
    known, here = set(view.names_at(value)), view.source.function_of(value)
    found: list[str] = []
    for each in functions(view):
        given = parameters(each)
        if each is here or not given or value.id in given or not known.issuperset(given):
            continue
        if isinstance(view.source.parents.get(each), ast.Module):
            found.append(f"{each.name}({', '.join(given)})")
    return found[:_MOST_NAMES]


def _bounds(value: ast.expr, view: ModuleView, words: tuple[str, ...]) -> list[str]:
    """Names that sound like a limit: of the function first, then of the module and the object."""
    names = [*view.names_at(value), *(each for each in view.module_names if each.isupper())]
    owner = view.source.class_of(value)
    if owner is not None:
        names += [f"self.{each}" for each in view.members(owner)]
    found = [
        each
        for each in names
        if any(part in words for part in each.removeprefix("self.").lower().split("_"))
        and each not in view.called_names
    ]
    return list(dict.fromkeys(found))[:_MOST_NAMES]
