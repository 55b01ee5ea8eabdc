"""Call arguments: swapped, dropped, added, passed by the wrong keyword."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence

from ..edits import replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView, is_method, parameters
from ..similarity import likeness
from ..source import Edit, Function

_KEYWORDS = (
    ("days", "hours", "minutes", "seconds", "weeks", "microseconds", "milliseconds"),
    ("day", "month", "year", "hour", "minute", "second", "microsecond"),
    ("encoding", "errors"),
    ("sep", "end"),
    ("key", "default"),
    ("abs_tol", "rel_tol"),
    ("default", "default_factory"),
    ("start", "stop", "step"),
)
_OFTEN_GIVEN: Mapping[str, tuple[bool, tuple[str, ...]]] = {
    # name -> (called as a method, likely further arguments)
    "enumerate": (False, ("start=1", "1")),
    "max": (False, ("default=None", "default=0")),
    "min": (False, ("default=None", "default=0")),
    "round": (False, ("2", "1", "3", "0")),
    "sum": (False, ("0.0", "[]", "()")),
    "int": (False, ("16", "2", "8", "10")),
    "zip": (False, ("strict=True",)),
    "split": (True, ('" "', '","', "maxsplit=1", "1")),
    "rsplit": (True, ("1", "maxsplit=1")),
    "splitlines": (True, ("keepends=True", "True")),
    "pop": (True, ("0", "-1")),
    "replace": (True, ("1",)),
    "open": (False, ('encoding="utf-8"', '"rb"', '"w"')),
    "read_text": (True, ('encoding="utf-8"',)),
    "decode": (True, ('"utf-8"', 'errors="replace"')),
    "encode": (True, ('"utf-8"',)),
    "strip": (True, ()),
    "lstrip": (True, ()),
    "rstrip": (True, ()),
}
_TAKES_MARK = ("strip", "lstrip", "rstrip", "split", "rsplit")
_MOST_FIELDS = 4

_SELDOM = ("int",)
"""Another base than ten shows itself in the text around it."""


class Arguments(Family):
    name = "argument"
    prior = 0.75
    fault = "passed the wrong arguments"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.Call):
            return
        yield from self._swaps(node, view)
        yield from self._drops(node, view)
        yield from self._additions(node, view)
        yield from self._keywords(node, view)
        yield from self._defaults(node, view)
        yield from self._stars(node, view)
        yield from self._turned(node, view)

    def _keywords(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """The same value by another keyword; one more of a row of alike ones."""
        given = {each.arg for each in node.keywords}
        function = _called(node, view)
        for each in node.keywords:
            if each.arg is None:
                continue
            options: dict[str, float] = {}
            if function is not None:
                options = {name: 0.5 + 0.4 * likeness(each.arg, name) for name in parameters(function)}
            for group in _KEYWORDS:
                if each.arg in group:
                    options.update(dict.fromkeys(group, 0.6))
            start, _ = view.source.span(each)
            for name, weight in options.items():
                if name not in given and name not in ("self", "cls"):
                    edit = Edit(start, start + len(each.arg), name)
                    yield Proposal((edit,), f"passes it as {name} instead of {each.arg}", weight)
        yield from self._alike(node, view)

    def _alike(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """``make(name=x.name)`` lacks perhaps ``email=x.email``."""
        pattern = [
            each
            for each in node.keywords
            if isinstance(each.value, ast.Attribute) and each.value.attr == each.arg
        ]
        if not pattern or not isinstance(pattern[0].value, ast.Attribute):
            return
        base = pattern[0].value.value
        given = {each.arg for each in node.keywords}
        _, end = view.source.span(node.keywords[-1])
        fields = [*view.attributes_of(base), *_fields_with(view, {each.arg or "" for each in pattern})]
        for name in list(dict.fromkeys(fields))[:_MOST_FIELDS]:
            if name not in given and name not in view.called_attributes:
                text = f", {name}={view.source.segment(base)}.{name}"
                yield Proposal((Edit(end, end, text),), f"also passes {name}", 0.5)

    def _defaults(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """Arguments that built-in functions are often given."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        extra = _OFTEN_GIVEN.get(name)
        if extra is None or (not node.args and name not in (*_TAKES_MARK, "pop", "open")):
            return
        method, options = extra
        if method != isinstance(node.func, ast.Attribute) or len(node.args) > 1:
            return
        if any(isinstance(each, ast.Starred) for each in node.args):
            return
        _, end = view.source.span(node)
        opening: tuple[Edit, ...] = ()
        if node.args and isinstance(node.args[0], ast.GeneratorExp):
            start, last = view.source.span(node.args[0])
            if last == end:  # its parentheses are those of the call
                opening = (Edit(start, start, "("),)
        given = {each.arg for each in node.keywords}
        comma = ", " if node.args or node.keywords else ""
        here = view.names_at(node)
        marks: list[str] = []
        function = view.source.function_of(node)
        if name in _TAKES_MARK and function is not None:
            texts = [each for each in view.constants(function, str) if isinstance(each, str)]
            marks = [repr(each) for each in texts if 0 < len(each) < 4][:4]
        for rank, text in enumerate((*_named(name, here), *marks, *options)):
            key = text.partition("=")[0] if "=" in text else ""
            if key in given or (node.keywords and not key):
                continue
            edit = Edit(end, end, f", {text})") if opening else Edit(end - 1, end - 1, f"{comma}{text}")
            likely = 0.35 if name in _SELDOM else 0.7
            yield Proposal((*opening, edit), f"passes {text} too", likely - 0.08 * min(rank, 3))

    def _stars(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        for each in node.args:
            start, _ = view.source.span(each)
            if isinstance(each, ast.Starred):
                inner, _ = view.source.span(each.value)
                yield Proposal((Edit(start, inner, ""),), "hands the values over as one", 0.6)
            elif isinstance(each, ast.GeneratorExp):
                end = view.source.span(each)[1]
                if end == view.source.span(node)[1]:
                    edits = (Edit(start, start, "(*"), Edit(end, end, ")"))
                    yield Proposal(edits, "hands the values over one by one", 0.5)
                else:
                    yield Proposal((Edit(start, start, "*"),), "hands the values over one by one", 0.5)

    def _turned(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """``a.startswith(b)`` and ``b.startswith(a)``."""
        if not isinstance(node.func, ast.Attribute) or len(node.args) != 1 or node.keywords:
            return
        base, argument = node.func.value, node.args[0]
        if not isinstance(base, (ast.Name, ast.Attribute)) or not isinstance(
            argument, (ast.Name, ast.Attribute)
        ):
            return
        one, two = view.source.segment(base), view.source.segment(argument)
        if one not in ("self", "cls") and one not in view.module_names and one != two:
            edits = replace(view, base, two) + replace(view, argument, one)
            yield Proposal(edits, f"exchanges {one} and {two}", 0.45)

    def _swaps(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        plain = [each for each in node.args if not isinstance(each, ast.Starred)]
        for position, first in enumerate(plain):
            for distance, second in enumerate(plain[position + 1 :], start=1):
                texts = view.source.segment(first), view.source.segment(second)
                if texts[0] != texts[1]:
                    edits = replace(view, first, texts[1]) + replace(view, second, texts[0])
                    weight = 0.9 if distance == 1 else 0.5
                    yield Proposal(edits, f"swaps the arguments {texts[0]} and {texts[1]}", weight)
        pairs = [each for each in node.keywords if each.arg]
        for first, second in itertools.pairwise(pairs):
            texts = view.source.segment(first.value), view.source.segment(second.value)
            if texts[0] != texts[1]:
                edits = replace(view, first.value, texts[1]) + replace(view, second.value, texts[0])
                yield Proposal(edits, f"swaps the values of {first.arg} and {second.arg}", 0.5)

    def _drops(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        everything: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        for position, each in enumerate(everything):
            start, end = view.source.span(each)
            if position + 1 < len(everything):
                end = view.source.span(everything[position + 1])[0]
            elif position:
                start = view.source.span(everything[position - 1])[1]
            if isinstance(each, ast.GeneratorExp) or not start < end:
                continue
            text = " ".join(view.source.segment(each).split())
            yield Proposal((Edit(start, end, ""),), f"drops the argument {text}", 0.4, Harm.REMOVES)

    def _additions(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        """A parameter of the called function, given nothing, that has a namesake in scope."""
        function = _called(node, view)
        _, end = view.source.span(node)
        if function is None or any(isinstance(each, ast.Starred) for each in node.args):
            return
        names = list(parameters(function))
        if is_method(function, view.source):
            names = names[1:]
        given = set(names[: len(node.args)]) | {each.arg for each in node.keywords}
        here = view.names_at(node)
        owner = view.source.class_of(node)
        comma = ", " if node.args or node.keywords else ""
        for name in names:
            if name in given or (function.args.vararg and name == function.args.vararg.arg):
                continue
            default = _default_of(function, name)
            if isinstance(default, ast.Constant) and isinstance(default.value, bool):
                text = f"{name}={not default.value}"
                yield Proposal((Edit(end - 1, end - 1, f"{comma}{text}"),), f"passes {text}", 0.6)
            if name in here:
                yield Proposal((Edit(end - 1, end - 1, f"{comma}{name}={name}"),), f"passes {name} on", 0.8)
            elif owner is not None and name in view.members(owner):
                edit = Edit(end - 1, end - 1, f"{comma}{name}=self.{name}")
                yield Proposal((edit,), f"passes self.{name} on", 0.5)


def _named(name: str, here: Sequence[str]) -> list[str]:
    """Variables in scope that carry the name of such an argument."""
    wanted = {
        "enumerate": ("start", "first", "offset"),
        "round": ("digits", "places", "precision", "ndigits"),
        "max": ("default",),
        "min": ("default",),
        "sum": ("start", "initial"),
        "split": ("sep", "separator", "delimiter", "limit", "maxsplit"),
        "rsplit": ("sep", "separator", "limit"),
        "pop": ("index", "position", "default"),
        "int": ("base",),
        "decode": ("encoding", "errors"),
        "encode": ("encoding", "errors"),
        "open": ("mode", "encoding"),
    }.get(name, ())
    return [each for each in here if each in wanted]


def _fields_with(view: ModuleView, names: set[str]) -> list[str]:
    """Annotated fields of the first class of the file that has all of the names."""
    for node in ast.walk(view.source.tree):
        if isinstance(node, ast.ClassDef):
            fields = [
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            ]
            if names <= set(fields):
                return fields
    return []


def _called(node: ast.Call, view: ModuleView) -> Function | None:
    if isinstance(node.func, ast.Name):
        initialiser = view.remembered("initialisers", _initialisers).get(node.func.id)
        return initialiser or view.functions.get(node.func.id)
    if isinstance(node.func, ast.Attribute):
        return view.functions.get(node.func.attr)
    return None


def _default_of(function: Function, name: str) -> ast.expr | None:
    """The default of one parameter."""
    plain = [*function.args.posonlyargs, *function.args.args]
    pairs = [
        *zip(reversed(plain), reversed(function.args.defaults), strict=False),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ]
    return next((default for argument, default in pairs if argument.arg == name), None)


def _initialisers(view: ModuleView) -> dict[str, Function]:
    """Class name -> its ``__init__``."""
    return {
        node.name: method
        for node in ast.walk(view.source.tree)
        if isinstance(node, ast.ClassDef)
        for method in view.methods(node)
        if method.name == "__init__"
    }
