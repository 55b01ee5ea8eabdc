"""Texts that are equal for values that are equal, without trusting what the values say of themselves."""

from __future__ import annotations

import itertools
import types
from typing import Any, Dict, Optional, Tuple

_DEPTH = 6
_ITEMS = 200
_TEXT = 60
_COPY_BYTES = 200000
_LONGEST = 5000
"""Values with more items than this are not copied."""
_VISITS = 4000
"""Values looked at for one fingerprint; what comes after does not count."""
_WHOLE = 1e15
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class _Budget:
    def __init__(self) -> None:
        self.left = _VISITS


def fingerprint(
    value: Any, depth: int = 0, inside: Tuple[int, ...] = (), budget: Optional[_Budget] = None
) -> str:
    """A text that is equal for equal values and holds no addresses; bounded."""
    kind = type(value)
    if kind is float and value == value and abs(value) < _WHOLE and value == int(value):
        # Equal numbers are equal results, as they are to an assertion.
        return "int:%d" % value
    if kind in _PLAIN:
        return "%s:%r" % (kind.__name__, value)
    budget = budget or _Budget()
    budget.left -= 1
    if depth > _DEPTH or id(value) in inside or budget.left < 0:
        return "..."
    inside = (*inside, id(value))

    def one(held: Any) -> str:
        return fingerprint(held, depth + 1, inside, budget)

    def each(values: Any) -> str:
        return ",".join(one(held) for held in itertools.islice(values, _ITEMS))

    # By type and with the built-in methods: classes of the project may have their own ideas.
    if issubclass(kind, (list, tuple)):
        base: Any = list if issubclass(kind, list) else tuple
        return "%s[%d:%s]" % (kind.__name__, base.__len__(value), each(base.__iter__(value)))
    if issubclass(kind, (set, frozenset)):
        some: Any = set if issubclass(kind, set) else frozenset
        return "%s{%s}" % (kind.__name__, ",".join(sorted(one(held) for held in some.__iter__(value))))
    if issubclass(kind, dict):
        pairs = ("%s=%s" % (one(key), one(held)) for key, held in itertools.islice(dict.items(value), _ITEMS))
        return "%s{%s}" % (kind.__name__, ",".join(pairs))
    if issubclass(kind, (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)):
        return "%s:%s" % (kind.__name__, getattr(value, "__qualname__", getattr(value, "__name__", "")))
    state = _state(value)
    if state is None:
        return "%s:%s" % (kind.__qualname__, _without_address(value))
    return "%s(%s)" % (kind.__qualname__, one(state))


def is_big(value: Any, depth: int = 0) -> bool:
    """Whether copying would take long; looks at no more than a fingerprint does."""
    kind = type(value)
    if issubclass(kind, (str, bytes, bytearray)):
        return len(value) > _COPY_BYTES
    if depth > _DEPTH or not issubclass(kind, (list, tuple, set, frozenset, dict)):
        return False
    if len(value) > _LONGEST:
        return True
    items = dict.values(value) if issubclass(kind, dict) else value
    return any(is_big(each, depth + 1) for each in itertools.islice(items, _ITEMS))


def _state(value: Any) -> Optional[Dict[str, Any]]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = None
    if isinstance(held, dict):
        return dict(held)
    found: Dict[str, Any] = {}
    slotted = False
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if type(member) is types.MemberDescriptorType and type(base) is type:
                slotted = True
                try:
                    found.setdefault(name, member.__get__(value, type(value)))
                except AttributeError:
                    continue
    return found if slotted and _is_python(type(value)) else None


def _is_python(kind: type) -> bool:
    """Whether a class was written in Python (those in C have members that are no state)."""
    return bool(kind.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE


def _without_address(value: Any) -> str:
    """The text of a value of a C type, unless it only names an address."""
    if type(value).__repr__ is object.__repr__:
        return ""
    text = repr(value)[:2000]
    return "" if " at 0x" in text else text


def short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  the project's own __repr__ may raise anything
        text = type(value).__name__
    return text if len(text) <= _TEXT else text[: _TEXT - 3] + "..."
