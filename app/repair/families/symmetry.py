"""Steps that come in pairs: the same for the other name, and the inverse of what a sibling does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from ..adapt import adapter
from ..blocks import is_docstring, is_elif
from ..edits import insert_after, insert_before
from ..facts import once, walk
from ..family import Family, Proposal
from ..scope import ModuleView, parameters
from ..similarity import likeness
from ..source import Edit, Function

_OPPOSITES = (
    ("left", "right"),
    ("low", "high"),
    ("min", "max"),
    ("lo", "hi"),
    ("minimum", "maximum"),
    ("smallest", "largest"),
    ("first", "last"),
    ("start", "end"),
    ("start", "stop"),
    ("begin", "end"),
    ("source", "target"),
    ("src", "dst"),
    ("x", "y"),
    ("y", "z"),
    ("a", "b"),
    ("i", "j"),
    ("row", "column"),
    ("row", "col"),
    ("rows", "columns"),
    ("width", "height"),
    ("head", "tail"),
    ("next", "prev"),
    ("next", "previous"),
    ("parent", "child"),
    ("debit", "credit"),
    ("before", "after"),
    ("old", "new"),
    ("in", "out"),
    ("up", "down"),
    ("top", "bottom"),
    ("wins", "losses"),
    ("one", "two"),
    ("sender", "receiver"),
    ("key", "value"),
    ("top", "left"),
    ("hits", "misses"),
)
_PARTNERS: dict[str, list[str]] = {}
for _one, _two in _OPPOSITES:
    _PARTNERS.setdefault(_one, []).append(_two)
    _PARTNERS.setdefault(_two, []).append(_one)
_ORDERED = frozenset(("low", "high", "min", "max", "lo", "hi", "minimum", "maximum", "smallest", "largest"))
_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_COMPARISON = re.compile(r"(?<![-<>=])(<=|>=|<|>)(?![<>=])")
_INVERSE: dict[type[ast.operator], str] = {ast.Add: "-=", ast.Sub: "+="}
_BACK = {
    "append": ("remove",),
    "add": ("discard", "remove"),
    "remove": ("append", "add"),
    "discard": ("add",),
}
_TAKING = ("pop", "popleft", "remove", "discard", "popitem")
_MOST = 6


class Symmetry(Family):
    name = "symmetry"
    prior = 0.7
    fault = "did only one half of a pair of steps"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or is_docstring(node):
            return
        function = view.source.function_of(node)
        if function is None:
            return
        small_if = (
            isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and not is_elif(view, node)
        )
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)) or small_if:
            yield from self._other(node, function, view)
        yield from self._inverse(node, function, view)
        yield from self._undone(node, function, view)

    def _other(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """The same statement again with one name changed, or two names swapped."""
        source = view.source
        if not source.editable(node) or not source.alone_on_lines(node):
            return
        existing = once(view, _statements, function)
        options: dict[str, float] = {}
        for old, new, weight in _pairs(node, function, view):
            for text in _replaced(node, old, new, view):
                if " ".join(text.split()) not in existing:
                    options[text] = max(options.get(text, 0.0), weight)
        ranked = sorted(options.items(), key=lambda pair: -pair[1])[:_MOST]
        for text, weight in ranked:
            old_indent = source.indent(node)
            lines = [
                line.removeprefix(old_indent).replace(source.indent_unit, "\t") for line in text.splitlines()
            ]
            edits = insert_after(view, node, lines)
            if edits is not None:
                shown = " ".join(text.split())
                yield Proposal(edits, f"adds the counterpart `{shown}`", weight)

    def _undone(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """What a sibling does to an attribute, taken back here: added there, removed here."""
        owner = view.source.class_of(function)
        block = view.source.block_of(node)
        if owner is None or block is None or "self" not in parameters(function)[:1]:
            return
        if function.name == "__init__":
            return
        own = once(view, _statements, function)
        ours = frozenset(view.local_names(function))
        changed = once(view, _changed_attributes, function)
        for origin, attribute, names, texts in once(view, _reversible, owner):
            if origin is function or attribute in changed or not names:
                continue
            fits = adapter(view).mapping(names, origin, function, ours)
            if fits is None:
                continue
            mapping, fit = fits
            for rank, text in enumerate(texts):
                line = _renamed(text, mapping)
                if line in own:
                    continue
                weight = (0.85 - 0.1 * rank) * fit
                leaves = isinstance(node, (ast.Return, ast.Raise, ast.Continue, ast.Break))
                places = [insert_before(view, node, [line])]
                if block[-1] is node and not leaves:
                    places.append(insert_after(view, node, [line]))
                for edits in places:
                    if edits is not None:
                        yield Proposal(edits, f"adds `{line}`, the inverse of {origin.name}", weight)

    def _inverse(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """A running value that a sibling method keeps up to date, and this one does not."""
        owner = view.source.class_of(function)
        taken = _taken(node, view)
        if owner is None or taken is None or "self" not in parameters(function)[:1]:
            return
        own = once(view, _updated, function)
        for update in once(view, _updates, owner):
            total = ast.unparse(update.target)
            sibling = view.source.function_of(update)
            if sibling is None or view.source.class_of(update) is not owner:
                continue
            inverse, value = _INVERSE[type(update.op)], view.source.segment(update.value)
            if f"{total} {inverse}" in own or (sibling is not function and total in own):
                continue
            call, item = taken
            constant = isinstance(update.value, ast.Constant)
            if constant:
                edits = insert_after(view, node, [f"{total} {inverse} {value}"])
                if edits is not None:
                    yield Proposal(edits, f"adds `{total} {inverse} {value}`", 0.95)
                continue
            if call:
                start, _ = view.source.span(node)
                yield Proposal((Edit(start, start, f"{total} {inverse} "),), f"takes it off {total}", 0.95)
            for text in dict.fromkeys((item, _mapped(update, sibling, function, view))):
                if text:
                    edits = insert_before(view, node, [f"{total} {inverse} {text}"])
                    if edits is not None:
                        yield Proposal(edits, f"adds `{total} {inverse} {text}`", 0.92)


def _statements(function: Function, view: ModuleView) -> frozenset[str]:
    """The texts of a function's statements, white space made one."""
    return frozenset(
        " ".join(view.source.segment(each).split())
        for each in walk(view, function)
        if isinstance(each, ast.stmt) and each is not function
    )


def _updated(function: Function, view: ModuleView) -> frozenset[str]:
    """Targets of augmented assignments, alone and with the operator."""
    found: set[str] = set()
    for each in walk(view, function):
        if isinstance(each, ast.AugAssign):
            target = ast.unparse(each.target)
            sign = "+=" if isinstance(each.op, ast.Add) else "-=" if isinstance(each.op, ast.Sub) else ""
            found |= {target, f"{target} {sign}"}
    return frozenset(found)


def _updates(owner: ast.ClassDef, view: ModuleView) -> tuple[ast.AugAssign, ...]:
    """Additions to and subtractions from attributes of self."""
    return tuple(
        each
        for each in walk(view, owner)
        if isinstance(each, ast.AugAssign)
        and type(each.op) in _INVERSE
        and isinstance(each.target, ast.Attribute)
        and isinstance(each.target.value, ast.Name)
        and each.target.value.id == "self"
    )


def _reversible(
    owner: ast.ClassDef, view: ModuleView
) -> tuple[tuple[Function, str, frozenset[str], tuple[str, ...]], ...]:
    """Per change of an attribute: where, which, the local names it needs, and what takes it back."""
    found: list[tuple[Function, str, frozenset[str], tuple[str, ...]]] = []
    for method in view.methods(owner):
        if method.name == "__init__":
            continue
        for node in walk(view, method):
            place, value, texts = _taken_back(node)
            if texts and place is not None and value is not None:
                names = frozenset(each.id for each in ast.walk(value) if isinstance(each, ast.Name))
                found.append((method, place.attr, names - {"self"}, texts))
    return tuple(found)


def _taken_back(node: ast.AST) -> tuple[ast.Attribute | None, ast.expr | None, tuple[str, ...]]:
    """The attribute of self that a statement changes, what it changes it by, and the inverse statements."""
    place: ast.expr | None = None
    value: ast.expr | None = None
    texts: tuple[str, ...] = ()
    if isinstance(node, ast.AugAssign) and type(node.op) in _INVERSE:
        place, value = node.target, node.value
        texts = (f"{ast.unparse(place)} {_INVERSE[type(node.op)]} {ast.unparse(value)}",)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value
        if isinstance(called.func, ast.Attribute) and len(called.args) == 1:
            place, value = called.func.value, called.args[0]
            back = _BACK.get(called.func.attr, ())
            texts = tuple(f"{ast.unparse(place)}.{name}({ast.unparse(value)})" for name in back)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        place, value = node.targets[0].value, node.targets[0].slice
        base, key = ast.unparse(place), ast.unparse(value)
        texts = (f"del {base}[{key}]", f"{base}.pop({key}, None)")
    if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id == "self":
        return place, value, texts
    return None, None, ()


def _changed_attributes(function: Function, view: ModuleView) -> frozenset[str]:
    """Attributes that a function stores, or calls changing methods of."""
    found: set[str] = set()
    for node in walk(view, function):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found |= {node.value.attr} if isinstance(node.value, ast.Attribute) else set()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes = node.func.attr in (*_BACK, *_TAKING)
            if changes and isinstance(node.func.value, ast.Attribute):
                found.add(node.func.value.attr)
    return frozenset(found)


def _renamed(text: str, mapping: Mapping[str, str]) -> str:
    return re.sub(r"(?<![\w.'\"])[A-Za-z_]\w*", lambda match: mapping.get(match[0], match[0]), text)


def _mapped(update: ast.AugAssign, sibling: Function, function: Function, view: ModuleView) -> str | None:
    names = frozenset(each.id for each in ast.walk(update.value) if isinstance(each, ast.Name))
    fits = adapter(view).mapping(names, sibling, function, frozenset(view.local_names(function)))
    return None if fits is None else adapter(view).written(update.value, fits[0])


def _taken(node: ast.stmt, view: ModuleView) -> tuple[bool, str | None] | None:
    """Whether a statement takes something out of a collection: (as a bare call, the item's own text)."""
    if isinstance(node, ast.Delete) and isinstance(node.targets[0], ast.Subscript):
        return False, view.source.segment(node.targets[0])
    value = node.value if isinstance(node, (ast.Expr, ast.Assign, ast.Return)) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _TAKING:
        bare = isinstance(node, ast.Expr) and value.func.attr not in ("remove", "discard")
        item = None
        if value.func.attr in ("remove", "discard") and value.args:
            item = view.source.segment(value.args[0])
        elif value.args and not isinstance(value.args[0], ast.Constant):
            item = f"{view.source.segment(value.func.value)}[{view.source.segment(value.args[0])}]"
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            item = None
        return bare, item
    return None


def _pairs(node: ast.stmt, function: Function, view: ModuleView) -> list[tuple[str, str, float]]:
    """(name or attribute used by the statement, one of like kind that it could be done for too, weight)."""
    used: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id not in ("self", "cls"):
            used[each.id] = None
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            attributes[each.attr] = None
    found: list[tuple[str, str, float]] = []
    known = view.names_at(node)
    own = [name for name in parameters(function) if name not in ("self", "cls")]
    for old in used:
        if old not in known:
            continue
        for new in known:
            if new == old or new in ("self", "cls"):
                continue
            weight = _kinship(old, new)
            if old in own and new in own:
                weight = max(weight, 0.65)
            if weight >= 0.6:
                found.append((old, new, weight))
    owner = view.source.class_of(function)
    members = [name for name in view.members(owner) if name not in view.called_attributes] if owner else []
    starts = once(view, _starts, owner) if owner else dict[str, str]()
    for old in attributes:
        for new in members:
            like = old in starts and starts[old] == starts.get(new)
            weight = max(_kinship(old, new), 0.62 if like else 0.0)
            if new != old and weight >= 0.6:
                found.append((old, new, weight))
    return sorted(found, key=lambda each: -each[2])[: 2 * _MOST]


def _kinship(old: str, new: str) -> float:
    """0 to 1: 1 for opposite words, less for names of like spelling or shared words."""
    ours, theirs = old.lower().strip("_").split("_"), new.lower().strip("_").split("_")
    if len(ours) == len(theirs):
        differing = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
        if len(differing) == 1 and differing[0][1] in _PARTNERS.get(differing[0][0], ()):
            return 1.0
    if old.rstrip("0123456789") == new.rstrip("0123456789") and old != new:
        return 0.9
    return 0.8 * likeness(old, new)


def _starts(owner: ast.ClassDef, view: ModuleView) -> dict[str, str]:
    """Attribute -> the first value that the class gives it, as a syntax tree's text."""
    initial: dict[str, str] = {}
    for each in walk(view, owner):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
            initial.setdefault(each.targets[0].attr, ast.dump(each.value))
    return initial


def _replaced(node: ast.stmt, old: str, new: str, view: ModuleView) -> Iterator[str]:
    """The statement's text with a name replaced, and with both swapped; comparisons mirrored for extremes."""
    text = view.source.segment(node)
    words = re.compile(rf"(?<![\w'\"]){re.escape(old)}(?!\w)")
    one_way = words.sub(new, text)
    both = re.compile(rf"(?<![\w'\"])(?:{re.escape(old)}|{re.escape(new)})(?!\w)")
    swapped = both.sub(lambda match: new if match[0] == old else old, text)
    extreme = set(old.split("_")) & _ORDERED
    for each in dict.fromkeys((swapped, one_way)):
        if extreme and isinstance(node, ast.If):
            yield _COMPARISON.sub(lambda match: _MIRROR[match[1]], each)
        yield each
