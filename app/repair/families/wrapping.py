"""Conversions: a value wrapped into one, taken out of one, a method call added to or taken from a chain."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

_REMOVABLE = frozenset(
    """
    len abs int str list sorted set float tuple bool reversed round repr dict frozenset enumerate iter sum
    next min max any all deepcopy
    """.split()  # noqa: SIM905
)
_TEXT = frozenset(
    """
    strip lstrip rstrip lower upper title capitalize copy casefold values keys items split splitlines replace
    ljust rjust zfill encode decode
    """.split()  # noqa: SIM905
)
_ROLES: Mapping[str, Mapping[str, float]] = {
    # What a value in each place is likely to lack; "." marks methods.
    "iterated": {
        "sorted": 0.8, "reversed": 0.9, "list": 0.6, "set": 0.5, ".items()": 0.7, ".values()": 0.8,
        ".keys()": 0.2, "enumerate": 0.3, ".split()": 0.3, ".copy()": 0.3, ".splitlines()": 0.3,
    },
    "result": {
        "list": 0.8, "sorted": 0.8, "tuple": 0.7, "dict": 0.7, "set": 0.6, "int": 0.7, "str": 0.7,
        "float": 0.6, "abs": 0.6, "bool": 0.6, "len": 0.6, "sum": 0.3, ".strip()": 0.7, ".lower()": 0.7,
        ".upper()": 0.5, ".copy()": 0.6, ".rstrip()": 0.4, "any": 0.2, "all": 0.2, "frozenset": 0.15,
    },
    "element": {
        "str": 0.8, "int": 0.7, "float": 0.6, "list": 0.8, "tuple": 0.6, "len": 0.4, "abs": 0.5,
        "sorted": 0.4, ".strip()": 0.9, ".lower()": 0.9, ".upper()": 0.7, ".copy()": 0.6, "dict": 0.5,
        "set": 0.4, "repr": 0.3,
    },
    "compared": {
        "len": 0.8, "abs": 0.8, "int": 0.7, "str": 0.6, "float": 0.4, ".lower()": 0.9, ".strip()": 0.7,
        ".casefold()": 0.4, "set": 0.5, "tuple": 0.3, "list": 0.4, "sum": 0.3, ".upper()": 0.4,
        "sorted": 0.4, ".values()": 0.3, ".total_seconds()": 0.2, ".date()": 0.15,
    },
    "given": {
        "str": 0.8, "int": 0.7, "len": 0.7, "list": 0.8, "abs": 0.6, "float": 0.5, "sorted": 0.7, "set": 0.6,
        "tuple": 0.6, "dict": 0.6, ".lower()": 0.8, ".strip()": 0.7, ".copy()": 0.6, ".values()": 0.5,
        ".items()": 0.4, ".keys()": 0.15, ".upper()": 0.5, "repr": 0.3, "iter": 0.2, ".encode()": 0.2,
    },
    "key": {
        ".lower()": 0.9, "str": 0.6, "int": 0.6, "tuple": 0.6, ".strip()": 0.7, ".upper()": 0.4, "abs": 0.3,
        "frozenset": 0.3, "len": 0.3,
    },
    "operand": {
        "str": 0.7, "int": 0.8, "float": 0.5, "len": 0.8, "abs": 0.6, "list": 0.6, "set": 0.6, "tuple": 0.4,
        "sum": 0.4, ".strip()": 0.3, ".lower()": 0.3,
    },
    "receiver": {
        ".strip()": 0.8, ".lower()": 0.8, ".upper()": 0.3, ".copy()": 0.2, "str": 0.4, ".rstrip()": 0.4,
    },
}  # fmt: skip
_ELSEWHERE = 0.75
"""Share of what the file uses nowhere else."""


class Wrapping(Family):
    name = "wrapping"
    prior = 0.5
    trust = 0.7
    fault = "used a value without the right conversion"
    boosts = {"TypeError": 1.4, "AttributeError": 1.2}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call):
            yield from self._unwrap(node, view)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)) and len(node.elts) == 1:
            if not isinstance(getattr(node, "ctx", None), ast.Store):
                text = view.source.segment(node.elts[0])
                yield Proposal(replace(view, node, text), f"takes {text} itself", 0.4)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._both(node, view)
        for value, role, weight in _places(node):
            if view.source.editable(value) and not isinstance(
                value, (ast.Constant, ast.Starred, ast.Lambda, ast.JoinedStr, ast.Await, ast.Yield)
            ):
                yield from self._wrapped(node, value, role, weight, view)

    def _wrapped(
        self, node: ast.AST, value: ast.expr, role: str, place: float, view: ModuleView
    ) -> Iterator[Proposal]:
        text = view.source.segment(value)
        bare = isinstance(value, ast.GeneratorExp) and not text.startswith("(")
        if bare:
            return
        for name, share in _likely(node, role):
            weight = share * place * _known(name, view)
            if name.startswith("."):
                if not text.endswith(name):
                    new = f"{enclosed(view, value)}{name}"
                    yield Proposal(replace(view, value, new), f"calls {name} on `{_short(text)}`", weight)
            elif not text.startswith(f"{name}("):
                said = f"wraps `{_short(text)}` in {name}()"
                yield Proposal(replace(view, value, f"{name}({text})"), said, weight)
        yield from self._special(node, value, role, text, view)

    def _special(
        self, node: ast.AST, value: ast.expr, role: str, text: str, view: ModuleView
    ) -> Iterator[Proposal]:
        plain = isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
        if role in ("result", "element") and not isinstance(
            value, (ast.List, ast.Dict, ast.Compare, ast.BoolOp)
        ):
            for digits, weight in ((", 2", 0.55), ("", 0.4), (", 1", 0.25)):
                new = f"round({text}{digits})"
                yield Proposal(replace(view, value, new), f"rounds it with round(...{digits})", weight)
        if role in ("given", "result", "element") and plain and "copy" in view.module_names:
            yield Proposal(replace(view, value, f"copy.deepcopy({text})"), "copies it deeply", 0.6)
        if "math" in view.module_names and role == "result" and not isinstance(value, ast.Name):
            for name in ("sqrt", "floor", "ceil"):
                yield Proposal(
                    replace(view, value, f"math.{name}({text})"), f"takes math.{name}() of it", 0.35
                )
        if role in ("receiver", "iterated") and isinstance(value, ast.Attribute):
            for key in view.remembered("subscripts", _subscripts).get(text, ()):
                if key in view.names_at(node):
                    yield Proposal(replace(view, value, f"{text}[{key}]"), f"takes {text}[{key}]", 0.7)
        if role == "result" and isinstance(value, ast.Name) and value.id.endswith("s"):
            for each in ("each.strip()", "each.lower()", "int(each)", "list(each)", "str(each)"):
                new = f"[{each} for each in {text}]"
                yield Proposal(replace(view, value, new), f"takes {each} of every item", 0.3)
        if role == "operand" and plain and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield Proposal(replace(view, value, f"[{text}]"), f"makes a list of {_short(text)}", 0.6)
        if role == "given" and plain:
            start, _ = view.source.span(value)
            if isinstance(node, ast.Call) and value in node.args:
                yield Proposal((Edit(start, start, "*"),), f"hands over the items of {_short(text)}", 0.4)
            yield Proposal(replace(view, value, f"[{text}]"), f"makes a list of {_short(text)}", 0.3)
        if role == "iterated" and plain:
            yield Proposal(replace(view, value, f"range({text})"), f"counts up to {_short(text)}", 0.3)
            yield Proposal(replace(view, value, f"range(len({text}))"), "goes over the positions", 0.3)
            yield Proposal(replace(view, value, f"zip(*{text})"), "goes over the columns", 0.4)
            if "enumerate" not in text and isinstance(getattr(node, "target", None), ast.Tuple):
                yield Proposal(replace(view, value, f"enumerate({text}, start=1)"), "counts from 1", 0.4)

    def _both(self, node: ast.Compare, view: ModuleView) -> Iterator[Proposal]:
        """The same method on both sides of a comparison."""
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
            return
        if not all(
            isinstance(each, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) for each in (left, right)
        ):
            return
        one, two = view.source.segment(left), view.source.segment(right)
        for name, weight in ((".lower()", 0.7), (".casefold()", 0.5), (".strip()", 0.5)):
            if not one.endswith(name) and not two.endswith(name):
                edits = replace(view, left, one + name) + replace(view, right, two + name)
                yield Proposal(edits, f"compares with {name} on both sides", weight * _known(name, view))
        for name in ("set", "sorted", "len"):
            edits = replace(view, left, f"{name}({one})") + replace(view, right, f"{name}({two})")
            yield Proposal(edits, f"compares {name}() of both sides", 0.3)

    def _unwrap(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node.func, ast.Attribute):
            yield from self._shortened(node, node.func, view)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if not node.args or isinstance(node.args[0], (ast.Starred, ast.GeneratorExp)):
            return
        few = len(node.args) == 1 or name in ("round", "enumerate", "next", "sum", "int")
        if (few and name in _REMOVABLE) or (len(node.args) == 1 and not node.keywords):
            text = enclosed(view, node.args[0])
            weight = 0.8 if name in _REMOVABLE else 0.4
            shown = view.source.segment(node.func)
            yield Proposal(replace(view, node, text), f"does without {shown}()", weight, Harm.LOOSENS)

    def _shortened(self, node: ast.Call, func: ast.Attribute, view: ModuleView) -> Iterator[Proposal]:
        base = func.value
        name = base.id if isinstance(base, ast.Name) else ""
        if name in view.module_names and name not in view.names_at(node):
            return  # a function of a module
        weight = 0.8 if func.attr in _TEXT else 0.3
        text = view.source.segment(base)
        said = f"does without .{func.attr}()"
        yield Proposal(replace(view, node, text), said, weight, Harm.LOOSENS)


def _subscripts(view: ModuleView) -> dict[str, tuple[str, ...]]:
    """Text of an object -> variables it is subscripted with in the file."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(view.source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            found.setdefault(ast.unparse(node.value), {})[node.slice.id] = None
    return {text: tuple(keys) for text, keys in found.items()}


def _likely(node: ast.AST, role: str) -> list[tuple[str, float]]:
    """Conversions of a role; pairs are unpacked from items or from positions."""
    found = dict(_ROLES[role])
    if role == "iterated":
        target = getattr(node, "target", None)
        if isinstance(target, ast.Tuple) and len(target.elts) == 2:
            found.update({".items()": 1.2, "enumerate": 1.0, ".values()": 0.3})
    if role == "compared" and isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        found.update({".values()": 0.6, ".keys()": 0.2, "abs": 0.1, "len": 0.1})
    return list(found.items())


def _known(name: str, view: ModuleView) -> float:
    """A conversion that the file makes elsewhere is likelier."""
    if name.startswith("."):
        return 1.0 if name[1:-2] in view.called_attributes else _ELSEWHERE
    return 1.0 if name in view.called_names else _ELSEWHERE


def _places(node: ast.AST) -> Iterator[tuple[ast.expr, str, float]]:
    """Values a conversion may be missing from: the value, its role, how likely there."""
    if isinstance(node, (ast.Return, ast.Assign, ast.AnnAssign)) and node.value is not None:
        chosen = isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.Or)
        if chosen or not isinstance(node.value, (ast.Compare, ast.BoolOp, ast.Tuple, ast.List, ast.Dict)):
            yield node.value, "result", 1.0
        elif isinstance(node.value, ast.Tuple):
            yield from ((each, "element", 0.6) for each in node.value.elts)
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.iter, "iterated", 1.0
    elif isinstance(node, ast.Call):
        for each in node.args:
            if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)):
                yield (
                    each,
                    "given",
                    0.9 if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) else 0.6,
                )
        for each in node.keywords:
            if isinstance(each.value, (ast.Name, ast.Attribute, ast.Subscript)):
                yield each.value, "given", 0.7
        receiver = getattr(node.func, "value", None)
        if isinstance(receiver, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            yield receiver, "receiver", 0.7
    elif isinstance(node, ast.Compare):
        for each in (node.left, *node.comparators):
            if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)):
                yield each, "compared", 0.9 if not isinstance(each, ast.BinOp) else 0.7
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Attribute)):
        yield node.slice, "key", 1.0
    elif isinstance(node, ast.BinOp):
        for each in (node.left, node.right):
            if isinstance(each, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
                yield each, "operand", 0.9
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        yield node.elt, "element", 0.9
    elif isinstance(node, ast.DictComp):
        yield node.key, "key", 0.9
        yield node.value, "element", 0.8
    elif isinstance(node, (ast.Dict, ast.List, ast.Set)):
        for each in node.values if isinstance(node, ast.Dict) else node.elts:
            if isinstance(each, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
                yield each, "element", 0.7
    elif isinstance(node, ast.Lambda):
        if isinstance(node.body, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            yield node.body, "element", 0.8
    elif isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)):
        yield node.value, "operand", 0.9


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else flat[:37] + "..."
