"""String literals of a source file as templates: texts with holes where a value is filled in.

Python is read with ``ast`` and Jinja with its own parser; nothing is ever executed. Joined strings, ``+``,
``%``, ``.format`` and ``.join`` over literals are followed, and names that hold a literal.
"""

from __future__ import annotations

import ast
import importlib
import re
import string
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from ....sandbox.base.errors import ConfigError
from ....sandbox.base.files import read_regular


class _Hole:
    def __repr__(self) -> str:
        return "HOLE"


HOLE: Final = _Hole()
"""Where a value is filled in."""

Template = tuple[str | _Hole, ...]

_LIMIT = 4_000_000
"""Bytes of a source file; an encoder file has some tens of thousands."""
_DEPTH, _STEPS, _LONGEST = 40, 2000, 10_000
"""Bounds of one expression (a name may stand for one that doubles another) and of one literal."""
_SLOTS = re.compile(r"\{\{?[ \t]*[A-Za-z_][\w.]*[ \t]*\}?\}|%s|%\(\w+\)s|\$\{?[A-Za-z_]\w*\}?")


def find_templates(path: Path, *, must_exist: bool = False) -> list[Template]:
    """Every text that the literals of a file may make; nothing for a file that cannot be parsed.

    Raises:
        ConfigError: with ``must_exist``, a file that cannot be read or is too large.
    """
    try:
        if path.stat().st_size > _LIMIT:
            raise ValueError(f"it has more than {_LIMIT} bytes")
        source = read_regular(path).decode("utf-8")
    except (OSError, ValueError) as error:
        if must_exist:
            raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
        return []
    try:
        found = _from_python(source) if path.suffix == ".py" else _from_jinja(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(dict.fromkeys(variant for template in found for variant in _variants(template)))


def _variants(template: Template) -> Iterator[Template]:
    yield template
    if len(template) == 1 and isinstance(template[0], str):
        text = template[0]
        if _SLOTS.search(text):
            pieces = _SLOTS.split(text)
            yield tuple(part for piece in pieces for part in (piece, HOLE))[:-1]
        if text.strip() != text:
            yield (text.strip(),)
        dedented = textwrap.dedent(text).strip()
        if dedented != text.strip():
            yield from _variants((dedented,))


# ---------------------------------------------------------------- Python


def _from_python(source: str) -> list[Template]:
    tree = ast.parse(source)
    known: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            known.setdefault(node.targets[0].id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            known.setdefault(node.target.id, node.value)
    reader = _Reader(known)
    found: list[Template] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp | ast.Call):
            template = reader.read(node)
            if any(isinstance(part, str) and part for part in template):
                found.append(template)
    return found


class _Reader:
    def __init__(self, known: dict[str, ast.expr]) -> None:
        self._known = known
        self._depth = 0
        self._steps = 0

    def read(self, node: ast.expr) -> Template:
        """The text of an expression; a hole for everything that is no literal."""
        if self._depth == 0:
            self._steps = 0
        self._steps += 1
        if self._depth > _DEPTH or self._steps > _STEPS:
            return (HOLE,)
        self._depth += 1
        try:
            return _joined(self._parts(node))
        finally:
            self._depth -= 1

    def _parts(self, node: ast.expr) -> Template:
        if isinstance(node, ast.Constant):
            sentence = isinstance(node.value, str) and len(node.value) <= _LONGEST
            return (cast(str, node.value),) if sentence else (HOLE,)
        if isinstance(node, ast.JoinedStr):
            return tuple(part for value in node.values for part in self.read(value))
        if isinstance(node, ast.FormattedValue):
            return self.read(node.value)
        if isinstance(node, ast.Name):
            known = self._known.get(node.id)
            return self._literal(known) if known is not None else (HOLE,)
        if isinstance(node, ast.Attribute):
            known = self._known.get(node.attr)
            return self._literal(known) if known is not None else (HOLE,)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return (*self.read(node.left), *self.read(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return self._slots(node.left, r"%(?:\(\w+\))?[sdr]")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._method(node.func, node.args)
        return (HOLE,)

    def _literal(self, node: ast.expr) -> Template:
        """A name stands for its literal; one that is computed stays a hole."""
        template = self.read(node) if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) else (HOLE,)
        return template if any(isinstance(part, str) for part in template) else (HOLE,)

    def _slots(self, node: ast.expr, pattern: str) -> Template:
        base = self.read(node)
        if len(base) != 1 or not isinstance(base[0], str):
            return (HOLE,)
        pieces = re.split(pattern, base[0])
        return tuple(part for piece in pieces for part in (piece.replace("%%", "%"), HOLE))[:-1]

    def _method(self, function: ast.Attribute, arguments: list[ast.expr]) -> Template:
        if function.attr in ("strip", "rstrip", "lstrip", "dedent", "cleandoc"):
            inner = self.read(
                arguments[0] if function.attr in ("dedent", "cleandoc") and arguments else function.value
            )
            if len(inner) == 1 and isinstance(inner[0], str):
                text = inner[0]
                changed = {
                    "strip": text.strip,
                    "rstrip": text.rstrip,
                    "lstrip": text.lstrip,
                    "dedent": lambda: textwrap.dedent(text),
                    "cleandoc": lambda: textwrap.dedent(text).strip(),
                }[function.attr]
                return (changed(),)
            return inner
        if function.attr == "format":
            base = self.read(function.value)
            if len(base) != 1 or not isinstance(base[0], str):
                return (HOLE,)
            parts: list[str | _Hole] = []
            for literal, field, _, _ in string.Formatter().parse(base[0]):
                parts.append(literal)
                if field is not None:
                    parts.append(HOLE)
            return tuple(parts)
        if function.attr == "join" and arguments and isinstance(arguments[0], ast.List | ast.Tuple):
            separator = self.read(function.value)
            joined: list[str | _Hole] = []
            for position, item in enumerate(arguments[0].elts):
                joined += [*(separator if position else ()), *self.read(item)]
            return tuple(joined)
        if function.attr == "replace" and len(arguments) == 2:
            base, old = self.read(function.value), self.read(arguments[0])
            if len(base) == len(old) == 1 and isinstance(base[0], str) and isinstance(old[0], str) and old[0]:
                pieces = base[0].split(old[0])
                return tuple(part for piece in pieces for part in (piece, HOLE))[:-1]
        return (HOLE,)


def _joined(parts: Template) -> Template:
    """Neighbouring texts as one."""
    merged: list[str | _Hole] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged) or ("",)


# ---------------------------------------------------------------- Jinja


def _from_jinja(source: str) -> list[Template]:
    try:
        jinja: Any = importlib.import_module("jinja2")
    except ImportError as error:
        raise ConfigError(
            "reading a chat template needs jinja2", hint="install it with: pip install 'whimbrel[native]'"
        ) from error
    found: list[Template] = []
    for trim in (True, False):
        environment = jinja.Environment(
            trim_blocks=trim, lstrip_blocks=trim, extensions=["jinja2.ext.loopcontrols"]
        )
        try:
            tree = environment.parse(source)
        except jinja.TemplateError as error:
            raise ValueError(str(error)) from error
        nodes = jinja.nodes
        for output in tree.find_all((nodes.Output, nodes.Concat, nodes.Add, nodes.Const, nodes.TemplateData)):
            template = _joined(_jinja_parts(output, nodes))
            if any(isinstance(part, str) and part for part in template):
                found.append(template)
    return found


def _jinja_parts(node: Any, nodes: Any) -> Template:
    if isinstance(node, nodes.TemplateData):
        return (cast(str, node.data),)
    if isinstance(node, nodes.Const):
        return (node.value,) if isinstance(node.value, str) else (HOLE,)
    if isinstance(node, nodes.Output | nodes.Concat):
        return tuple(part for each in node.nodes for part in _jinja_parts(each, nodes))
    if isinstance(node, nodes.Add):
        return (*_jinja_parts(node.left, nodes), *_jinja_parts(node.right, nodes))
    return (HOLE,)
