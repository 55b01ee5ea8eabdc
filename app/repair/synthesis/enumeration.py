"""Bottom-up enumeration of terms, pruned by observational equivalence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .operations import BINARY, NEUTRAL, UNARY, Binary, Unary
from .terms import (
    ATOM,
    COMPARISON,
    CONDITIONAL,
    MAPPING,
    NOTHING,
    NUMBER,
    OR,
    SEQUENCE,
    TEXT,
    TRUTH,
    Opaque,
    Term,
    kind_of,
    sample_key,
)

MAX_SIZE = 5
MOST_ATTEMPTS = 8000
_MOST_PER_SIZE = 2500
_MOST_TESTS = 250
_MOST_VALUES = 8


class Enumeration:
    """Terms over some leaves, in order of size, the cheapest first within a size.

    A term that is undefined in any sample is dropped. Terms whose values another one has in
    all samples are given too (a caller may prefer their text), but nothing is built on them
    (with few samples: on the first few).

    Args:
        leaves: names, attributes, constants and pieces of the program, all with values for
            the same samples.
        max_size: nodes of the largest term.
        most: operations tried in all; the enumeration ends there.
    """

    def __init__(
        self, leaves: Sequence[Term], *, max_size: int = MAX_SIZE, most: int = MOST_ATTEMPTS
    ) -> None:
        self._leaves = leaves
        self._max_size = max_size
        self._left = most
        self._banks: dict[int, list[Term]] = {}
        self._by_kind: dict[tuple[int, str], list[Term]] = {}
        self._keys: dict[tuple[Any, ...], int] = {}
        # Few samples say little: terms that only happen to agree in them are kept apart a while longer.
        samples = len(leaves[0].values) if leaves else 0
        self._keep = 3 if samples <= 3 else 2 if samples <= 8 else 1
        self._texts: set[str] = set()

    def __iter__(self) -> Iterator[Term]:
        for size in range(1, self._max_size + 1):
            made: list[Term] = []
            for term in self._of_size(size):
                if term.text not in self._texts:
                    self._texts.add(term.text)
                    made.append(term)
            made.sort(key=lambda term: (term.cost, len(term.text), term.text))
            bank = self._banks[size] = []
            for term in made:
                alike = self._keys.get(term.key, 0)
                if alike < (self._keep if size <= 2 else 1) and len(bank) < _MOST_PER_SIZE:
                    self._keys[term.key] = alike + 1
                    bank.append(term)
                    self._by_kind.setdefault((size, term.kind), []).append(term)
            yield from made
            if self._left <= 0:
                break
        yield from self._with_a_choice()

    def _with_a_choice(self) -> Iterator[Term]:
        """``new if condition else old``, its inverse, and ``mapping.get(key, old)``."""
        singles = self._banks.get(1, [])
        old = next((each for each in self._leaves if each.own), None)
        if old is None:
            return
        mappings = [each for each in singles if each.kind == MAPPING]
        keys = [each for each in singles if each.kind in (TEXT, NUMBER, SEQUENCE)]
        for mapping in mappings:
            for key in keys:
                made = self._combined(
                    f"{mapping.within(ATOM)}.get({key.text}, {old.text})",
                    ATOM,
                    (mapping, key, old),
                    lambda holder, key, otherwise: holder.get(key, otherwise),
                )
                if made is not None:
                    yield made
        tests = [each for size in (1, 2, 3) for each in self._by_kind.get((size, TRUTH), ())][:_MOST_TESTS]
        values = [each for each in singles if not each.own and each.kind in (old.kind, NOTHING)][
            :_MOST_VALUES
        ]
        for test in tests:
            for value in values:
                text = f"{value.within(OR)} if {test.within(OR)} else {old.within(CONDITIONAL)}"
                made = self._combined(text, CONDITIONAL, (test, value, old), lambda c, a, b: a if c else b)
                if made is not None:
                    yield made

    def _combined(
        self,
        text: str,
        level: int,
        operands: tuple[Term, Term, Term],
        compute: Callable[[Any, Any, Any], Any],
    ) -> Term | None:
        columns = (each.values for each in operands)
        try:
            values = [compute(*row) for row in zip(*columns, strict=True)]
        except Exception:  # noqa: BLE001  whatever an operation raises on these values, it does not fit
            return None
        size, cost = sum(each.size for each in operands), 1.0 + sum(each.cost for each in operands)
        return _made(text, level, size, cost, values, operands)

    def _of_size(self, size: int) -> Iterator[Term]:
        yield from (each for each in self._leaves if each.size == size)
        for operation in UNARY:
            inner = size - operation.own_size
            if inner < 1:
                continue
            for kind in sorted(operation.kinds):
                for term in self._by_kind.get((inner, kind), ()):
                    made = None if term.constant else self._unary(operation, term, size)
                    if made is not None:
                        yield made
        for left_size in range(1, size - 1):
            right_size = size - 1 - left_size
            for operation in BINARY:
                yield from self._pairs(operation, left_size, right_size, size)

    def _pairs(self, operation: Binary, left_size: int, right_size: int, size: int) -> Iterator[Term]:
        for left_kind, right_kind in sorted(operation.pairs):
            lefts = self._by_kind.get((left_size, left_kind), ())
            rights = self._by_kind.get((right_size, right_kind), ())
            for left in lefts:
                if left.constant and not operation.constant_left:
                    continue
                for right in rights:
                    if self._left <= 0:
                        return
                    if left.text == right.text or (left.constant and right.constant):
                        continue
                    # The other order is the same expression; the larger operand stands on the left.
                    turned = left_size < right_size or (left_size == right_size and left.text > right.text)
                    alike = left_kind == right_kind and not right.constant
                    if operation.symmetric and alike and turned:
                        continue
                    if right.constant and (operation.form, _scalar(right)) in NEUTRAL:
                        continue
                    made = self._binary(operation, left, right, size)
                    if made is not None:
                        yield made

    def _unary(self, operation: Unary, inner: Term, size: int) -> Term | None:
        self._left -= 1
        values: list[Any] = []
        try:
            for each in inner.values:
                values.append(operation.compute(each))
        except Exception:  # noqa: BLE001  whatever an operation raises on these values, it does not fit
            return None
        text = f"{operation.before}{inner.within(operation.inner)}{operation.after}"
        if text.startswith(("--", "abs(-", "int(str(")) or (
            operation.before == "not " and inner.level == COMPARISON
        ):
            return None  # comparisons have opposites of their own
        return _made(text, operation.level, size, operation.cost + inner.cost, values, (inner,))

    def _binary(self, operation: Binary, left: Term, right: Term, size: int) -> Term | None:
        self._left -= 1
        values: list[Any] = []
        try:
            for one, other in zip(left.values, right.values, strict=True):
                values.append(operation.compute(one, other))
        except Exception:  # noqa: BLE001  whatever an operation raises on these values, it does not fit
            return None
        text = operation.form.format(left.within(operation.left), right.within(operation.right))
        cost = operation.cost + left.cost + right.cost
        return _made(text, operation.level, size, cost, values, (left, right))


def _made(
    text: str, level: int, size: int, cost: float, values: list[Any], operands: tuple[Term, ...]
) -> Term | None:
    """The term, unless it is one of its operands in all samples: then the operation shows no effect."""
    content = tuple(values)
    kind = kind_of(content)
    try:
        key = sample_key(kind, content)
    except (RecursionError, ValueError):
        return None  # a number too long to be written down
    names: frozenset[str] = frozenset()
    for operand in operands:
        if operand.key == key:
            return None
        names |= operand.names
    return Term(text, level, size, cost, content, kind, key, False, names)


def _scalar(term: Term) -> Any:
    value = term.values[0] if term.values else None
    return None if isinstance(value, (Opaque, list, dict, set)) else value
