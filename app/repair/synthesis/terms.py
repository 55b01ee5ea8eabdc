"""Expressions with the values they have at every evaluation of the place under repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..values import NONE, Seen

ATOM, SIGN, PRODUCT, SUM, COMPARISON, NOT, AND, OR, CONDITIONAL = 20, 14, 13, 12, 8, 7, 6, 5, 3
"""How tightly kinds of expressions bind."""

NUMBER, TRUTH, TEXT, SEQUENCE, MAPPING, SET, NOTHING, OPTIONAL, OBJECT, MIXED = (
    "number",
    "truth",
    "text",
    "sequence",
    "mapping",
    "set",
    "nothing",
    "optional",
    "object",
    "mixed",
)


_SCALAR = frozenset((NUMBER, TRUTH, TEXT))


class Undefined(Exception):
    """An operation has no known value for these operands."""


@dataclass(frozen=True)
class Opaque:
    """A value of which only type, length and attributes are known."""

    seen: Seen


@dataclass(frozen=True)
class Term:
    """An expression: its text, and its value per sample.

    ``cost`` orders terms: nodes, plus something for what is seldom meant.
    """

    text: str
    level: int
    size: int
    cost: float
    values: tuple[Any, ...]
    kind: str
    key: tuple[Any, ...]
    constant: bool = False
    names: frozenset[str] = frozenset()
    own: bool = False
    """Whether it is the whole expression that shall be replaced."""

    def within(self, level: int) -> str:
        """The text as an operand that must bind at least as tightly as ``level``."""
        return self.text if self.level >= level else f"({self.text})"


def known(seen: Seen) -> Any:
    """What operations work on."""
    return seen.value if seen.exact else Opaque(seen)


def leaf(
    text: str,
    values: Sequence[Any],
    *,
    cost: float = 1.0,
    size: int = 1,
    level: int = ATOM,
    constant: bool = False,
    names: frozenset[str] | None = None,
    own: bool = False,
) -> Term:
    """A term that is taken from the program as it is."""
    content = tuple(values)
    kind = kind_of(content)
    used = frozenset((text,)) if names is None else names
    return Term(text, level, size, cost, content, kind, sample_key(kind, content), constant, used, own)


def sample_key(kind: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Equal for terms that cannot be told apart by their values."""
    if kind in _SCALAR:
        return kind, values
    return kind, *(value_key(each) for each in values)


def value_key(value: Any) -> Any:
    """Equal exactly for equal values of equal type."""
    kind = type(value)
    if kind is int or kind is str or kind is bool or value is None:
        return kind, value
    if isinstance(value, Opaque):
        return "opaque", id(value.seen)
    if isinstance(value, (set, frozenset)):
        return kind, tuple(sorted(repr(each) for each in value))  # pyright: ignore[reportUnknownVariableType]
    return kind, repr(value)


def kind_of(values: Sequence[Any]) -> str:
    """The common kind of a term's values."""
    kinds = {_kind(each) for each in values}
    if len(kinds) == 1:
        return kinds.pop()
    if len(kinds) == 2 and NOTHING in kinds:
        return OPTIONAL
    return MIXED


def _kind(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, Opaque):
        return NOTHING if value.seen.type == NONE else OBJECT
    return _KINDS.get(type(value), MIXED)


_KINDS: dict[type, str] = {
    bool: TRUTH,
    int: NUMBER,
    float: NUMBER,
    str: TEXT,
    list: SEQUENCE,
    tuple: SEQUENCE,
    range: SEQUENCE,
    dict: MAPPING,
    set: SET,
    frozenset: SET,
}


def truth(value: Any) -> bool:
    """Whether the value counts as true.

    Raises:
        Undefined: that depends on code of the project.
    """
    if isinstance(value, Opaque):
        if value.seen.length is not None and "." not in value.seen.type:
            return value.seen.length > 0
        raise Undefined
    return bool(value)
