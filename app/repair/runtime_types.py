"""What run-time types say about putting one name in the place of another."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from .source import Function, ModuleSource

if TYPE_CHECKING:
    from .values import RuntimeValues, Seen

SAME, UNKNOWN, OTHER, CANNOT = 1.0, 0.8, 0.4, 0.0
"""Factors on a proposal's weight."""
_NONE = "NoneType"
_NUMBERS = frozenset(("int", "float", "bool", "complex", "decimal.Decimal", "fractions.Fraction"))
_NO_ARITHMETIC = frozenset(("dict", "set", "frozenset", _NONE))
_MISFITS = frozenset(("TypeError", "AttributeError"))
_ARITHMETIC = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)


class RuntimeTypes:
    """Types seen inside the functions of one file; everything is unknown without values."""

    def __init__(self, source: ModuleSource, values: RuntimeValues | None) -> None:
        self._source = source
        self._values = values
        self._known: dict[Function, Mapping[str, Sequence[Seen]]] = {}

    def seen(self, name: str, line: int) -> Sequence[Seen]:
        """Values of a name, or of ``name.attribute``, in the innermost function around a line."""
        function = self._function_at.get(line)
        if self._values is None or function is None:
            return ()
        if function not in self._known:
            last = function.end_lineno or function.lineno
            self._known[function] = self._values.names(self._source.path, function.lineno, last)
        owner, _, attribute = name.partition(".")
        found = self._known[function].get(owner, ())
        if not attribute:
            return found
        return [each.attributes[attribute] for each in found if attribute in each.attributes]

    def type_of(self, name: str, line: int) -> str:
        """The commonest type other than None's; None's when there was no other; "" when not seen."""
        counts: dict[str, int] = {}
        for each in self.seen(name, line):
            counts[each.type] = counts.get(each.type, 0) + 1
        if not counts:
            return ""
        return max(counts, key=lambda kind: (kind != _NONE, counts[kind], kind))

    def fit(self, old: str, new: str, node: ast.AST, raised: Sequence[str]) -> float:
        """How well ``new`` can stand for ``old`` at a node: a factor, 0 when its type rules it out.

        ``raised``: what ended the failing tests. After a type error the old name's type is no guide.
        """
        line = getattr(node, "lineno", 0)
        theirs = self.type_of(new, line)
        if not theirs:
            return UNKNOWN if self.type_of(old, line) else SAME
        if self._cannot(theirs, node):
            return CANNOT
        ours = self.type_of(old, line)
        if not ours or _MISFITS.intersection(raised):
            return UNKNOWN
        return SAME if alike(ours, theirs) else OTHER

    def _cannot(self, kind: str, node: ast.AST) -> bool:
        parent = self._source.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.value is node:
            known = getattr(builtins, kind, None)
            return isinstance(known, type) and not hasattr(known, parent.attr)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, _ARITHMETIC):
            return kind in ("str", "list", "tuple", "dict", _NONE)
        if isinstance(parent, ast.BinOp):
            return kind in _NO_ARITHMETIC and not isinstance(parent.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
        return False

    @cached_property
    def _function_at(self) -> Mapping[int, Function]:
        """Line -> the innermost function around it."""
        owners: dict[int, Function] = {}
        # Outer functions come first in a walk, so inner ones overwrite them.
        for node in ast.walk(self._source.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                owners.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node))
        return owners


def alike(first: str, second: str) -> bool:
    """Whether values of two types can usually stand for each other."""
    if first == second or _NONE in (first, second):
        return True
    return first in _NUMBERS and second in _NUMBERS
