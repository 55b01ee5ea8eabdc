"""The missing end of a recursion."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import first_real
from ..edits import insert_before
from ..exits import exits
from ..facts import walk
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Function

_MOST_VALUES = 6


class BaseCases(Family):
    name = "base-case"
    prior = 0.7
    trust = 0.8
    harm = Harm.LOOSENS
    boosts = {  # noqa: RUF012
        "RecursionError": 1.5,
        "IndexError": 1.3,
        "AttributeError": 1.3,
        "TypeError": 1.3,
    }
    fault = "lacked a base case"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return
        function = view.source.function_of(node)
        if function is None or not _at_the_start(node, function):
            return
        calls = _own_calls(function, view)
        if not calls:
            return
        for rank, name in enumerate(_shrinking(function, calls)):
            for condition, share in _conditions(name, function, view):
                for value, weight in _values(name, condition, node, function, view, calls):
                    edits = insert_before(view, node, [f"if {condition}:", f"\treturn {value}"])
                    if edits is not None:
                        yield Proposal(
                            edits,
                            f"adds the base case `if {condition}: return {value}`",
                            weight * share * (1.0 - 0.1 * min(rank, 4)),
                        )


def _at_the_start(node: ast.stmt, function: Function) -> bool:
    """The first statement, or the first after guards at the start."""
    for each in function.body[function.body.index(first_real(function)) :]:
        if each is node:
            return True
        if not isinstance(each, ast.If) or each.orelse:
            return False
    return False


def _own_calls(function: Function, view: ModuleView) -> list[ast.Call]:
    found: list[ast.Call] = []
    for each in walk(view, function):
        if isinstance(each, ast.Call):
            name = each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            if name == function.name:
                found.append(each)
    return found


def _shrinking(function: Function, calls: list[ast.Call]) -> list[str]:
    """Parameters that recursive calls pass on changed, before those passed on as they are."""
    given = [name for name in parameters(function) if name not in ("self", "cls")]
    same: dict[str, int] = dict.fromkeys(given, 0)
    for call in calls:
        for name, argument in zip(given, call.args, strict=False):
            if isinstance(argument, ast.Name) and argument.id == name:
                same[name] += 1
    changed = [name for name in given if same[name] < len(calls)]
    # A parameter that a call shrinks is likelier than one that a loop walks.
    return [*changed, *(name for name in given if name not in changed)][:3]


def _conditions(name: str, function: Function, view: ModuleView) -> Iterator[tuple[str, float]]:
    used = [each for each in walk(view, function) if not isinstance(each, ast.FunctionDef)]
    attribute = any(isinstance(each, ast.Attribute) and _is(each.value, name) for each in used)
    number = any(
        isinstance(each, ast.BinOp) and _is(each.left, name) and isinstance(each.right, ast.Constant)
        for each in used
    ) or any(isinstance(each, ast.AugAssign) and _is(each.target, name) for each in used)
    sliced = any(isinstance(each, ast.Subscript) and _is(each.value, name) for each in used)
    looped = any(isinstance(each, (ast.For, ast.comprehension)) and _is(each.iter, name) for each in used)
    methods = {each.attr for each in used if isinstance(each, ast.Attribute) and _is(each.value, name)}
    if methods & {"items", "values", "keys", "get"}:
        yield f"not isinstance({name}, dict)", 1.0
        yield f"isinstance({name}, int)", 0.8
        yield f"isinstance({name}, str)", 0.75
    elif attribute:
        yield f"{name} is None", 1.0
        yield f"not {name}", 0.8
    if number:
        yield f"{name} == 0", 1.0
        yield f"{name} <= 0", 0.95
        yield f"{name} <= 1", 0.85
        yield f"{name} == 1", 0.7
        yield f"{name} < 2", 0.5
        yield f"{name} < 0", 0.6
    if sliced:
        yield f"not {name}", 1.0
        yield f"len({name}) <= 1", 0.85
        yield f"len({name}) == 1", 0.8
    if looped:
        yield f"not isinstance({name}, list)", 0.9
        yield f"not isinstance({name}, (list, tuple))", 0.8
        yield f"not isinstance({name}, dict)", 0.75
        yield f"isinstance({name}, str)", 0.7
        yield f"not {name}", 0.6
    if not (attribute or number or sliced or looped):
        yield f"not {name}", 0.8
        yield f"{name} is None", 0.75
        yield f"{name} <= 0", 0.6


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _values(
    name: str, condition: str, node: ast.stmt, function: Function, view: ModuleView, calls: list[ast.Call]
) -> list[tuple[str, float]]:
    """What the base case may give: the neutral element of how results are combined comes first."""
    found: dict[str, float] = {}

    def offer(value: str, weight: float) -> None:
        found[value] = max(found.get(value, 0.0), weight)

    for call in calls:
        parent = view.source.parents.get(call)
        if isinstance(parent, ast.BinOp):
            if isinstance(parent.op, ast.Mult):
                offer("1", 1.0)
            elif isinstance(parent.op, ast.Add):
                other = parent.right if parent.left is call else parent.left
                textual = isinstance(other, (ast.JoinedStr,)) or (
                    isinstance(other, ast.Constant) and isinstance(other.value, str)
                )
                offer('""' if textual else "[]" if isinstance(other, ast.List) else "0", 1.0)
                offer("[]", 0.7)
        elif isinstance(parent, ast.BoolOp):
            offer("True" if isinstance(parent.op, ast.And) else "False", 0.95)
        elif isinstance(parent, ast.comprehension):
            offer("[[]]", 0.95)
            offer("[()]", 0.7)
        elif isinstance(parent, ast.Call):
            called = getattr(parent.func, "id", getattr(parent.func, "attr", ""))
            if called in ("max", "min", "sum"):
                offer("0", 0.97)
            elif called in ("extend", "update"):
                offer(f"[{name}]", 0.97)
                offer("[]", 0.8)
    if any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult) for each in walk(view, function)):
        offer("1", 0.85)
    if "isinstance" in condition:
        offer(f"[{name}]", 0.85)
        offer(name, 0.88)
    if condition.startswith("len("):
        offer(name, 0.8)
        offer(f"{name}[0]", 0.7)
    if condition.endswith(("== 1", "<= 1")):
        offer("1", 0.75)
        offer(name, 0.7)
    for leave, weight in exits(node, function, view, name):
        if leave.startswith("return "):
            offer(leave.removeprefix("return "), 0.9 * weight)
    return sorted(found.items(), key=lambda pair: -pair[1])[:_MOST_VALUES]
