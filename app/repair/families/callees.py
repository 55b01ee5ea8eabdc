"""Callees: the opposite or neighbouring function, a similar name, a sibling method."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..facts import functions, once
from ..family import Family, Proposal
from ..scope import ModuleView, parameters
from ..similarity import likeness
from ..source import Edit

_PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("append", "extend"),
    ("add", "update"),
    ("add", "discard"),
    ("remove", "discard"),
    ("lower", "upper"),
    ("lstrip", "rstrip"),
    ("strip", "rstrip"),
    ("strip", "lstrip"),
    ("startswith", "endswith"),
    ("find", "rfind"),
    ("index", "rindex"),
    ("find", "index"),
    ("split", "rsplit"),
    ("partition", "rpartition"),
    ("split", "splitlines"),
    ("ljust", "rjust"),
    ("removeprefix", "removesuffix"),
    ("keys", "values"),
    ("items", "values"),
    ("keys", "items"),
    ("union", "intersection"),
    ("difference", "symmetric_difference"),
    ("difference", "intersection"),
    ("issubset", "issuperset"),
    ("int", "float"),
    ("int", "round"),
    ("floor", "ceil"),
    ("str", "repr"),
    ("list", "set"),
    ("list", "tuple"),
    ("set", "sorted"),
    ("list", "sorted"),
    ("sorted", "reversed"),
    ("sum", "len"),
    ("sum", "max"),
    ("isdigit", "isalnum"),
    ("isdigit", "isalpha"),
    ("isalpha", "isalnum"),
    ("match", "search"),
    ("match", "fullmatch"),
    ("search", "fullmatch"),
    ("pop", "popleft"),
    ("append", "appendleft"),
    ("bisect_left", "bisect_right"),
    ("isinstance", "issubclass"),
    ("getattr", "hasattr"),
    ("heappush", "heappop"),
    ("seconds", "total_seconds"),
    ("read", "readlines"),
    ("read", "readline"),
    ("islower", "isupper"),
    ("title", "capitalize"),
    ("insert", "append"),
    ("encode", "decode"),
    ("sin", "cos"),
    ("log", "log2"),
    ("log", "log10"),
    ("union", "difference"),
    ("upper", "title"),
    ("lower", "casefold"),
    ("copy", "deepcopy"),
    ("get", "pop"),
    ("get", "setdefault"),
    ("update", "setdefault"),
    ("weekday", "isoweekday"),
    ("strftime", "strptime"),
    ("now", "utcnow"),
    ("date", "time"),
    ("degrees", "radians"),
    ("sin", "tan"),
    ("sqrt", "isqrt"),
    ("floor", "trunc"),
    ("floor", "int"),
    ("ceil", "int"),
    ("round", "floor"),
    ("round", "ceil"),
    ("stdev", "variance"),
    ("stdev", "pstdev"),
    ("variance", "pvariance"),
    ("mean", "median"),
    ("mean", "fmean"),
    ("combinations", "permutations"),
    ("combinations", "combinations_with_replacement"),
    ("product", "permutations"),
    ("chain", "zip"),
    ("zip", "zip_longest"),
    ("takewhile", "dropwhile"),
    ("filter", "map"),
    ("bisect", "bisect_left"),
    ("insort", "insort_left"),
    ("isnumeric", "isdigit"),
    ("isdecimal", "isdigit"),
    ("swapcase", "upper"),
    ("center", "ljust"),
    ("center", "rjust"),
    ("zfill", "rjust"),
    ("strip", "removeprefix"),
    ("lstrip", "removeprefix"),
    ("rstrip", "removesuffix"),
    ("partition", "split"),
    ("rpartition", "rsplit"),
    ("startswith", "removeprefix"),
    ("count", "index"),
    ("count", "find"),
    ("sorted", "set"),
    ("set", "frozenset"),
    ("dict", "list"),
    ("enumerate", "range"),
    ("sub", "subn"),
    ("findall", "finditer"),
    ("fullmatch", "compile"),
    ("join", "joinpath"),
    ("load", "loads"),
    ("dump", "dumps"),
    ("fromkeys", "get"),
    ("popitem", "pop"),
    ("remove", "pop"),
    ("clear", "copy"),
    ("sum", "min"),
    ("len", "max"),
    ("ord", "chr"),
    ("hex", "bin"),
    ("bin", "oct"),
    ("setattr", "getattr"),
    ("gcd", "lcm"),
    ("log1p", "log"),
    ("exp", "expm1"),
    ("atan", "atan2"),
    ("asin", "acos"),
    ("isupper", "istitle"),
    ("fromisoformat", "strptime"),
    ("isoformat", "strftime"),
    ("most_common", "elements"),
    ("appendleft", "extendleft"),
    ("rotate", "reverse"),
    ("difference", "union"),
    ("intersection", "symmetric_difference"),
    ("isdisjoint", "issubset"),
    ("intersection_update", "update"),
    ("difference_update", "update"),
    ("gather", "wait"),
    ("acquire", "release"),
    ("nlargest", "nsmallest"),
    ("maximum", "minimum"),
    ("head", "tail"),
)
_TYPES = {
    "int": ("float", "(int, float)", "str", "bool"),
    "float": ("int", "(int, float)"),
    "str": ("bytes", "(str, bytes)", "int", "list"),
    "bytes": ("str", "bytearray"),
    "list": ("tuple", "(list, tuple)", "dict", "set", "str"),
    "tuple": ("list", "(list, tuple)"),
    "dict": ("list", "set", "str"),
    "set": ("frozenset", "list", "(set, frozenset)", "dict"),
    "bool": ("int", "str"),
}
_DOTTED = {"int": ("math.floor", "math.ceil", "round"), "abs": ("math.sqrt", "math.fabs")}
_ACROSS = {
    "math.floor": ("int", "round", "math.ceil", "math.trunc"),
    "math.ceil": ("int", "round", "math.floor"),
    "math.trunc": ("math.floor", "round"),
    "math.sqrt": ("abs",),
    "copy.copy": ("copy.deepcopy",),
    "math.fabs": ("abs",),
}
_AS_CALL = {"seconds": "total_seconds()", "microseconds": "total_seconds()"}
_PARTNERS: dict[str, list[str]] = {}
for _one, _two in _PAIRS:
    _PARTNERS.setdefault(_one, []).append(_two)
    _PARTNERS.setdefault(_two, []).append(_one)

_MOST_SIBLINGS = 12


class Callees(Family):
    name = "callee"
    prior = 0.8
    trust = 0.75
    fault = "called the wrong function"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Call):
            yield from self._substitutes(node.func, view)
            yield from self._across(node.func, view)
            if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id in _PARTNERS:
                yield from self._substitutes(node.args[0], view)
            if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
                yield from self._types(node.args[-1:], view)
        elif isinstance(node, ast.Attribute) and node.attr in _AS_CALL:
            parent = view.source.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                _, end = view.source.span(node)
                new = _AS_CALL[node.attr]
                yield Proposal((Edit(end - len(node.attr), end, new),), f"calls {new} instead", 0.9)

    def _across(self, callee: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        """Functions of modules against built-in ones."""
        old = view.source.segment(callee)
        for rank, new in enumerate((*_ACROSS.get(old, ()), *_DOTTED.get(old, ()))):
            module = new.partition(".")[0]
            if "." not in new or module in view.module_names:
                yield Proposal(replace(view, callee, new), f"calls {new} instead of {old}", 0.7 - 0.1 * rank)

    def _types(self, arguments: list[ast.expr], view: ModuleView) -> Iterator[Proposal]:
        for each in arguments:
            named = [each] if isinstance(each, ast.Name) else getattr(each, "elts", [])
            for one in named:
                old = getattr(one, "id", "")
                for rank, new in enumerate(_TYPES.get(old, ())):
                    if "(" not in new or one is each:
                        said = f"asks for {new} instead of {old}"
                        yield Proposal(replace(view, one, new), said, 0.8 - 0.1 * rank)

    def _substitutes(self, callee: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(callee, ast.Name):
            old, siblings = callee.id, list(view.module_functions)
        elif isinstance(callee, ast.Attribute):
            old = callee.attr
            siblings = [name for name in view.attributes_of(callee.value) if name in view.called_attributes]
            owner = view.source.class_of(callee)
            if owner is not None and ast.unparse(callee.value) == "self":
                siblings += [method.name for method in view.methods(owner)]
        else:
            return
        _, end = view.source.span(callee)
        weights: dict[str, float] = {
            new: max(0.35, 1.0 - 0.1 * i) for i, new in enumerate(_PARTNERS.get(old, ()))
        }
        counts = once(view, _arities, view.source.tree)
        ranked = sorted(
            dict.fromkeys(siblings),
            key=lambda name: (counts.get(name) != counts.get(old), -likeness(old, name), name),
        )
        for name in ranked[:_MOST_SIBLINGS]:
            if name != old and not name.startswith("__"):
                weights.setdefault(name, 0.25 + 0.6 * likeness(old, name))
        for new, weight in weights.items():
            yield Proposal((Edit(end - len(old), end, new),), f"calls {new} instead of {old}", weight)


def _arities(tree: ast.Module, view: ModuleView) -> dict[str, int]:
    """How many parameters the file's functions have, by name; those of methods without the object."""
    found: dict[str, int] = {}
    for each in functions(view):
        given = parameters(each)
        found.setdefault(each.name, len(given) - (given[:1] in (("self",), ("cls",))))
    return found
