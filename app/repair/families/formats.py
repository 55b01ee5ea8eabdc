"""Text formats: f-strings, ``str.format`` and ``%``: fields, widths, precision, alignment, conversions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..edits import replace
from ..family import Family, Proposal
from ..scope import ModuleView
from ..similarity import likeness
from ..source import Edit

_PERCENT = re.compile(r"%(?:\((\w+)\))?([-+ #0]*)(\d*)(\.\d+)?([diouxXeEfFgGcrsa])")
_SPEC = re.compile(r"(.?[<>=^])?([-+ ]?)(#?)(0?)(\d*)([,_]?)(\.\d+)?([a-zA-Z%]?)\Z")
_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")
_PLAIN_FIELD = re.compile(r"\{([A-Za-z_]\w*)(?:[!:.\[][^{}]*)?\}")
_MOST_NAMES = 5
_NUMBERS = frozenset("deEfFgGn%xXob")


@dataclass(frozen=True)
class _Field:
    """One ``{expression!conversion:spec}``; offsets are relative to the literal."""

    start: int
    end: int
    expression: str
    conversion: str
    spec: str | None
    nested: bool = False

    def written(self, **new: str | None) -> str:
        expression = new.get("expression", self.expression)
        conversion = new.get("conversion", self.conversion)
        spec = new.get("spec", self.spec)
        return "{" + f"{expression}{conversion}" + (f":{spec}" if spec else "") + "}"


class Formats(Family):
    name = "format"
    prior = 0.8
    fault = "wrote a value in the wrong format"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.expr) and view.source.inside_fstring(node):
            return
        if isinstance(node, ast.JoinedStr):
            yield from self._fields(node, view)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if view.source.is_docstring(node):
                return
            parent = view.source.parents.get(node)
            if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod) and parent.left is node:
                yield from self._percent(node, view)
            elif isinstance(parent, ast.Attribute) and parent.attr == "format":
                yield from self._fields(node, view)
            else:
                yield from self._forgotten(node, view)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "format":
            yield from self._called(node, view)

    def _fields(self, node: ast.JoinedStr | ast.Constant, view: ModuleView) -> Iterator[Proposal]:
        start, end = view.source.span(node)
        fields = _fields_in(view.source.text[start:end])
        formatted = isinstance(node, ast.JoinedStr)
        for position, field in enumerate(fields):
            for new, weight, said in _respecified(field):
                edit = Edit(start + field.start, start + field.end, new)
                yield Proposal((edit,), said, weight)
            if formatted and _NAME.match(field.expression):
                yield from self._others(node, field, start, view)
            if position + 1 < len(fields):
                other = fields[position + 1]
                if field.expression != other.expression and formatted:
                    edits = (
                        Edit(
                            start + field.start, start + field.end, field.written(expression=other.expression)
                        ),
                        Edit(
                            start + other.start, start + other.end, other.written(expression=field.expression)
                        ),
                    )
                    said = f"swaps {field.expression} and {other.expression}"
                    yield Proposal(edits, said, 0.8)

    def _others(
        self, node: ast.JoinedStr | ast.Constant, field: _Field, start: int, view: ModuleView
    ) -> Iterator[Proposal]:
        """Another variable or attribute in a field (positions of syntax trees inside are not needed)."""
        base, dot, last = field.expression.rpartition(".")
        names = view.names_at(node)
        if dot:
            attributes = view.attributes_of(ast.parse(base, mode="eval").body) if base != "self" else ()
            owner = view.source.class_of(node)
            names = view.members(owner) if base == "self" and owner is not None else attributes
            names = tuple(name for name in names if name not in view.called_attributes)
        ranked = [name for name in names if name != last and name not in ("self", "cls")]
        ranked.sort(key=lambda name: (-likeness(last, name), name))
        for name in ranked[:_MOST_NAMES]:
            edit = Edit(
                start + field.start, start + field.end, field.written(expression=f"{base}{dot}{name}")
            )
            weight = 0.35 + 0.4 * likeness(last, name)
            yield Proposal((edit,), f"shows {base}{dot}{name} instead of {field.expression}", weight)

    def _percent(self, node: ast.Constant, view: ModuleView) -> Iterator[Proposal]:
        start, end = view.source.span(node)
        for match in _PERCENT.finditer(view.source.text[start:end]):
            name, flags, width, precision, kind = match.groups("")
            head = f"%({name})" if name else "%"
            options: list[tuple[str, float]] = []
            for flag, weight in (("0", 0.8), ("-", 0.7), ("+", 0.4)):
                if flag in flags:
                    options.append((head + flags.replace(flag, "") + width + precision + kind, weight))
                elif width or flag == "+":
                    options.append((head + flag + flags + width + precision + kind, weight))
            if width:
                for change in (1, -1, 2):
                    if int(width) + change > 0:
                        text = head + flags + str(int(width) + change) + precision + kind
                        options.append((text, 0.6))
                options.append((head + precision + kind, 0.4))
            for digits in _digits(precision, kind):
                options.append((head + flags + width + digits + kind, 0.7))
            for other in {"d": "sf", "s": "rd", "r": "s", "f": "dg", "x": "Xd", "X": "x", "g": "f"}.get(
                kind, ""
            ):
                kept = precision if other in "fgs" else ""
                options.append((head + flags + width + kept + other, 0.6))
            for text, weight in options:
                edit = Edit(start + match.start(), start + match.end(), text)
                yield Proposal((edit,), f"formats with {text} instead of {match.group()}", weight)

    def _forgotten(self, node: ast.Constant, view: ModuleView) -> Iterator[Proposal]:
        """A plain string with fields in it whose names are known here."""
        literal = view.source.segment(node)
        if literal[:1] not in ("'", '"'):
            return
        fields = _PLAIN_FIELD.findall(literal)
        if fields and set(fields) <= {*view.names_at(node), *view.module_names}:
            start, _ = view.source.span(node)
            yield Proposal((Edit(start, start, "f"),), "fills the fields in", 1.0)

    def _called(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            spec = node.args[1].value
            if isinstance(spec, str):
                field = _Field(0, 0, "", "", spec)
                for new, weight, said in _respecified(field):
                    text = new[1:-1].removeprefix(":")
                    yield Proposal(replace(view, node.args[1], repr(text)), said, weight)


def _fields_in(literal: str) -> list[_Field]:
    """Replacement fields without nested ones, in order."""
    found: list[_Field] = []
    position = 0
    while position < len(literal):
        char = literal[position]
        if char == "{" and literal[position + 1 : position + 2] == "{":
            position += 2
            continue
        if char != "{":
            position += 1
            continue
        depth, end = 1, position + 1
        while end < len(literal) and depth:
            depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(literal[end], 0)
            end += 1
        if depth:
            break
        field = _field(literal[position + 1 : end - 1], position, end)
        if field is not None:
            found.append(field)
        position = end
    return found


def _field(inside: str, start: int, end: int) -> _Field | None:
    depth, quote = 0, ""
    cut = len(inside)
    for at, char in enumerate(inside):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and (char == ":" or (char == "!" and inside[at + 1 : at + 2] in ("r", "s", "a"))):
            cut = at
            break
    rest = inside[cut:]
    conversion = rest[:2] if rest.startswith("!") else ""
    spec = rest[len(conversion) :]
    expression = inside[:cut]
    if "{" in spec or expression.rstrip().endswith("="):
        return None
    return _Field(start, end, expression, conversion, spec[1:] if spec.startswith(":") else None)


def _respecified(field: _Field) -> Iterator[tuple[str, float, str]]:
    """The field with another conversion or specification."""
    if field.conversion:
        yield field.written(conversion=""), 0.9, f"shows {field.expression} as it is"
    elif not field.spec:
        yield field.written(conversion="!r"), 0.5, f"shows {field.expression} with its quotes"
    match = _SPEC.match(field.spec or "")
    if match is None:
        return
    align, sign, hash_, zero, width, group, precision, kind = match.groups("")
    front = sign + hash_ + zero
    options: list[tuple[str, float]] = []
    for digits in _digits(precision, kind):
        options.append((f"{align}{front}{width}{group}{digits}{kind or 'f'}", 0.8 if field.spec else 0.5))
    if width:
        for change in (1, -1, 2):
            if int(width) + change > 0:
                options.append((f"{align}{front}{int(width) + change}{group}{precision}{kind}", 0.6))
        for new in ("<", ">", "^"):
            if new != align[-1:]:
                fill = align[:-1]
                options.append((f"{fill}{new}{front}{width}{group}{precision}{kind}", 0.8 if align else 0.6))
        options.append((f"{align}{sign}{hash_}{'' if zero else '0'}{width}{group}{precision}{kind}", 0.7))
    elif not field.spec:
        options += [("02d", 0.4), ("02", 0.3)]
    if field.spec or not field.conversion:
        known = 0.6 if field.spec and (kind in _NUMBERS or not kind) else 0.3
        for new in (",", "_", ""):
            if new != group:
                options.append((f"{align}{front}{width}{new}{precision}{kind}", known))
        options.append(
            (f"{align}{'' if sign else '+'}{hash_}{zero}{width}{group}{precision}{kind}", known * 0.7)
        )
    for new in {"d": "f", "f": "dg%", "%": "f", "x": "Xd", "X": "x", "g": "f", "e": "f", "b": "dx"}.get(
        kind, ""
    ):
        kept = "" if new in "dxX" else precision
        options.append((f"{align}{front}{width}{group}{kept}{new}", 0.5))
    for spec, weight in options:
        if spec != (field.spec or ""):
            yield field.written(spec=spec), weight, f"formats with `{spec or 'nothing'}`"


def _digits(precision: str, kind: str) -> Iterator[str]:
    """Other numbers of digits after the point, likeliest first."""
    if precision:
        now = int(precision[1:])
        for new in dict.fromkeys((2, 1, now + 1, now - 1, 0, 3)):
            if new >= 0 and new != now:
                yield f".{new}"
    elif kind in ("f", "", "%"):
        yield from (".2", ".1", ".0")
