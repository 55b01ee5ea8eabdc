"""What expressions are built with. Computed here, on plain values only: no code of the project runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .terms import (
    AND,
    ATOM,
    COMPARISON,
    MAPPING,
    NOT,
    NUMBER,
    OBJECT,
    OPTIONAL,
    OR,
    PRODUCT,
    SEQUENCE,
    SET,
    SIGN,
    SUM,
    TEXT,
    TRUTH,
    Opaque,
    Undefined,
    truth,
)

_LONGEST = 400
_LARGEST = 10**30


@dataclass(frozen=True)
class Unary:
    kinds: frozenset[str]
    compute: Callable[[Any], Any]
    before: str
    after: str
    level: int
    inner: int
    cost: float
    own_size: int = 1


@dataclass(frozen=True)
class Binary:
    """An operation on operands of the kinds in ``pairs``.

    ``symmetric``: both orders mean the same, or the other order has an operation of its own.
    ``constant_left``: whether a constant may stand on the left.
    """

    pairs: frozenset[tuple[str, str]]
    compute: Callable[[Any, Any], Any]
    form: str
    level: int
    left: int
    right: int
    cost: float
    symmetric: bool = False
    constant_left: bool = True


def _length(value: Any) -> int:
    if isinstance(value, Opaque):
        if value.seen.length is None:
            raise Undefined
        return value.seen.length
    return len(value)


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def guarded(left: Any, right: Any) -> Any:
        if abs(left) > _LARGEST or abs(right) > _LARGEST:
            raise Undefined
        return compute(left, right)

    return guarded


def _joined(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or isinstance(left, range) or len(left) + len(right) > _LONGEST:
        raise Undefined
    return left + right


def _total(value: Any) -> Any:
    if not all(type(each) in (int, float) for each in value):
        raise Undefined
    return sum(value)


def _largest(value: Any) -> Any:
    if not all(type(each) in (int, float, str) for each in value):
        raise Undefined
    return max(value)


def _smallest(value: Any) -> Any:
    if not all(type(each) in (int, float, str) for each in value):
        raise Undefined
    return min(value)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        raise Undefined
    return bool(left == right)


def _contains(item: Any, container: Any) -> bool:
    if isinstance(item, Opaque):
        raise Undefined
    return item in container


def _element(container: Any, index: Any) -> Any:
    if isinstance(index, Opaque) or type(index) is bool:
        raise Undefined
    return container[index]


def _either(left: Any, right: Any) -> Any:
    return left if truth(left) else right


_N, _T, _S = frozenset((NUMBER,)), frozenset((TEXT,)), frozenset((SEQUENCE,))
_SIZED = frozenset((TEXT, SEQUENCE, MAPPING, SET, OBJECT))
_PLAIN = frozenset((TEXT, SEQUENCE, MAPPING, SET))
_ANY = frozenset((NUMBER, TRUTH, TEXT, SEQUENCE, MAPPING, SET, OPTIONAL))


def _function(name: str, kinds: frozenset[str], compute: Callable[[Any], Any], cost: float) -> Unary:
    return Unary(kinds, compute, f"{name}(", ")", ATOM, 0, cost)


def _method(name: str, compute: Callable[[Any], Any], cost: float) -> Unary:
    return Unary(_T, compute, "", f".{name}()", ATOM, ATOM, cost)


UNARY: tuple[Unary, ...] = (
    Unary(frozenset((OPTIONAL,)), lambda v: v is None, "", " is None", COMPARISON, SUM, 0.9),
    Unary(frozenset((OPTIONAL,)), lambda v: v is not None, "", " is not None", COMPARISON, SUM, 0.9),
    Unary(_PLAIN | {TRUTH, OPTIONAL}, lambda v: not truth(v), "not ", "", NOT, NOT, 1.0),
    _function("len", _SIZED, _length, 0.8),
    Unary(_N, lambda v: -v, "-", "", SIGN, SIGN, 1.2),
    _function("abs", _N, abs, 1.3),
    _function("int", _N | _T, int, 1.6),
    _function("str", _N, str, 2.4),
    _function("round", _N, round, 1.8),
    _function("sum", _S | {SET}, _total, 1.4),
    _function("max", _S | {SET}, _largest, 1.5),
    _function("min", _S | {SET}, _smallest, 1.5),
    _function("sorted", _S | {SET}, sorted, 1.5),
    _function("list", _S | {SET}, list, 1.6),
    _function("set", _S, set, 1.6),
    _method("lower", str.lower, 1.3),
    _method("upper", str.upper, 1.5),
    _method("strip", str.strip, 1.3),
    _method("split", str.split, 1.7),
    _method("title", str.title, 1.9),
    Unary(_S | _T, lambda v: v[0], "", "[0]", ATOM, ATOM, 1.4, 2),
    Unary(_S | _T, lambda v: v[-1], "", "[-1]", ATOM, ATOM, 1.4, 2),
    Unary(_S | _T, lambda v: v[1:], "", "[1:]", ATOM, ATOM, 1.9, 2),
    Unary(_S | _T, lambda v: v[:-1], "", "[:-1]", ATOM, ATOM, 1.9, 2),
    Unary(_S | _T, lambda v: v[::-1], "", "[::-1]", ATOM, ATOM, 2.1, 2),
)

_NN = frozenset(((NUMBER, NUMBER),))
_SORTABLE = frozenset(((TEXT, TEXT), (SEQUENCE, SEQUENCE)))
_ALIKE = frozenset((kind, kind) for kind in _ANY) | {
    (OPTIONAL, kind) for kind in (NUMBER, TEXT, TRUTH, SEQUENCE)
}
_INSIDE = frozenset(
    (kind, holder) for kind in (NUMBER, TEXT, SEQUENCE) for holder in (SEQUENCE, MAPPING, SET)
) | {(TEXT, TEXT)}
_INDEX = frozenset(((SEQUENCE, NUMBER), (TEXT, NUMBER))) | {
    (MAPPING, kind) for kind in (NUMBER, TEXT, SEQUENCE)
}
_CUT = frozenset(((SEQUENCE, NUMBER), (TEXT, NUMBER)))
_TRUTHS = frozenset(((TRUTH, TRUTH),))

BINARY: tuple[Binary, ...] = (
    Binary(_NN, lambda a, b: a < b, "{} < {}", COMPARISON, SUM, SUM, 0.9, False, False),
    Binary(_SORTABLE, lambda a, b: a < b, "{} < {}", COMPARISON, SUM, SUM, 2.2, False, False),
    Binary(_NN, lambda a, b: a <= b, "{} <= {}", COMPARISON, SUM, SUM, 0.9, False, False),
    Binary(_SORTABLE, lambda a, b: a <= b, "{} <= {}", COMPARISON, SUM, SUM, 2.2, False, False),
    Binary(_NN, lambda a, b: a > b, "{} > {}", COMPARISON, SUM, SUM, 0.9, True, False),
    Binary(_SORTABLE, lambda a, b: a > b, "{} > {}", COMPARISON, SUM, SUM, 2.2, True, False),
    Binary(_NN, lambda a, b: a >= b, "{} >= {}", COMPARISON, SUM, SUM, 0.9, True, False),
    Binary(_SORTABLE, lambda a, b: a >= b, "{} >= {}", COMPARISON, SUM, SUM, 2.2, True, False),
    Binary(_ALIKE, _equal, "{} == {}", COMPARISON, SUM, SUM, 1.0, True, False),
    Binary(_ALIKE, lambda a, b: not _equal(a, b), "{} != {}", COMPARISON, SUM, SUM, 1.0, True, False),
    Binary(_INSIDE, _contains, "{} in {}", COMPARISON, SUM, SUM, 0.9),
    Binary(_INSIDE, lambda a, b: not _contains(a, b), "{} not in {}", COMPARISON, SUM, SUM, 0.9),
    Binary(_NN, _arithmetic(lambda a, b: a + b), "{} + {}", SUM, SUM, PRODUCT, 0.9, True, False),
    Binary(_NN, _arithmetic(lambda a, b: a - b), "{} - {}", SUM, SUM, PRODUCT, 0.9),
    Binary(_NN, _arithmetic(lambda a, b: a * b), "{} * {}", PRODUCT, PRODUCT, SIGN, 1.0, True, False),
    Binary(_NN, _arithmetic(lambda a, b: a / b), "{} / {}", PRODUCT, PRODUCT, SIGN, 1.2),
    Binary(_NN, _arithmetic(lambda a, b: a // b), "{} // {}", PRODUCT, PRODUCT, SIGN, 1.5),
    Binary(_NN, _arithmetic(lambda a, b: a % b), "{} % {}", PRODUCT, PRODUCT, SIGN, 1.5),
    Binary(_NN, lambda a, b: max(a, b), "max({}, {})", ATOM, 0, 0, 1.2, True, False),
    Binary(_NN, lambda a, b: min(a, b), "min({}, {})", ATOM, 0, 0, 1.2, True, False),
    Binary(_INDEX, _element, "{}[{}]", ATOM, ATOM, 0, 1.0),
    Binary(_CUT, lambda a, b: a[:b], "{}[:{}]", ATOM, ATOM, 0, 1.6),
    Binary(_CUT, lambda a, b: a[b:], "{}[{}:]", ATOM, ATOM, 0, 1.6),
    Binary(frozenset(((TEXT, TEXT), (SEQUENCE, SEQUENCE))), _joined, "{} + {}", SUM, SUM, PRODUCT, 1.1),
    Binary(frozenset(((TEXT, TEXT),)), str.startswith, "{}.startswith({})", ATOM, ATOM, 0, 1.4),
    Binary(frozenset(((TEXT, TEXT),)), str.endswith, "{}.endswith({})", ATOM, ATOM, 0, 1.4),
    Binary(frozenset((OPTIONAL, kind) for kind in _ANY), _either, "{} or {}", OR, OR, AND, 1.3),
    Binary(_TRUTHS, lambda a, b: a and b, "{} and {}", AND, AND, NOT, 1.2, True),
    Binary(_TRUTHS, lambda a, b: a or b, "{} or {}", OR, OR, AND, 1.2, True),
)

NEUTRAL = {
    ("{} + {}", 0),
    ("{} - {}", 0),
    ("{} * {}", 1),
    ("{} * {}", 0),
    ("{} // {}", 1),
    ("{} / {}", 1),
    ("{} % {}", 1),
    ("{}[:{}]", 0),
    ("{}[{}:]", 0),
}
"""Operations that change nothing, or lose everything, with such a constant on the right."""
