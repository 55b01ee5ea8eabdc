"""Plain descriptions of values, made without running any code of the project.

Only objects of exactly the built-in types are looked into, attributes are read from
instance dictionaries and slots, everything else is named by its type.
"""

from __future__ import annotations

import types
from typing import Any, Callable, Dict, List, Optional, Tuple

MOST_ATTRIBUTES = 24
MOST_ITEMS = 64
MOST_TEXT = 80
MOST_EXACT = 240
"""Characters of a string that is kept exactly."""
_MOST_BITS = 256
_DEEPEST = 3

UNSEEN = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
)
"""Kinds of objects that are part of the program rather than its data."""
_KNOWN_ATTRIBUTES = {
    "datetime.date": ("year", "month", "day"),
    "datetime.datetime": ("year", "month", "day", "hour", "minute", "second"),
    "datetime.time": ("hour", "minute", "second"),
    "datetime.timedelta": ("days", "seconds"),
}
"""Attributes of C types that have no dictionary."""
_SAFE_REPR = (*_KNOWN_ATTRIBUTES, "decimal.Decimal")
_DICT_LIKE = ("collections.defaultdict", "collections.OrderedDict", "collections.Counter")

_qualified: Callable[[type, str], Any] = type.__getattribute__


class _TooMuch(Exception):
    """A value cannot be written down exactly within the limits."""


def type_name(value: Any) -> str:
    """``module.Class`` (without the module for built-ins); runs no code of a metaclass."""
    kind = type(value)
    name, module = _qualified(kind, "__qualname__"), _qualified(kind, "__module__")
    if not isinstance(module, str) or module == "builtins":
        return str(name)
    return "%s.%s" % (module, name)


def _exact(value: Any, left: List[int], depth: int) -> str:
    """Source text that stands for exactly this value."""
    left[0] -= 1
    if left[0] < 0:
        raise _TooMuch
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return repr(value)
    if kind is int:
        if value.bit_length() > _MOST_BITS:
            raise _TooMuch
        return repr(value)
    if kind is str or kind is bytes:
        if len(value) > MOST_EXACT:
            raise _TooMuch
        return repr(value)
    if kind is range:
        return repr(value)
    if depth >= _DEEPEST:
        raise _TooMuch
    if kind in (list, tuple, set, frozenset):
        if len(value) > left[0]:
            raise _TooMuch
        parts = [_exact(each, left, depth + 1) for each in list(value)]
        if kind is list:
            return "[%s]" % ", ".join(parts)
        if kind is tuple:
            return "(%s%s)" % (", ".join(parts), "," if len(parts) == 1 else "")
        # The order of a set is no part of its value.
        parts.sort()
        text = "{%s}" % ", ".join(parts) if parts else "set()"
        return text if kind is set else "frozenset(%s)" % (text if parts else "")
    if kind is dict or (issubclass(kind, dict) and type_name(value) in _DICT_LIKE):
        if dict.__len__(value) > left[0]:
            raise _TooMuch
        pairs = [
            "%s: %s" % (_exact(key, left, depth + 1), _exact(each, left, depth + 1))
            for key, each in list(dict.items(value))
        ]
        return "{%s}" % ", ".join(pairs)
    raise _TooMuch


def _length(value: Any) -> Optional[int]:
    """Length by the built-in type's own method, also for subclasses."""
    for kind in (str, bytes, list, tuple, dict, set, frozenset, bytearray, range):
        if issubclass(type(value), kind):
            return int(kind.__len__(value))  # type: ignore[arg-type,unused-ignore]
    return None


def attributes_of(value: Any) -> Dict[str, Any]:
    """Attributes from the instance's own dictionary and slots; properties are not run."""
    found: Dict[str, Any] = {}
    kind = type(value)
    order: Tuple[type, ...] = _qualified(kind, "__mro__")
    known = _KNOWN_ATTRIBUTES.get(type_name(value))
    if known is not None:
        return {name: getattr(value, name) for name in known}
    for owner in order:
        own: Dict[str, Any] = _qualified(owner, "__dict__")
        fields = own.get("_fields")
        if issubclass(kind, tuple) and type(fields) is tuple and fields:
            size = min(tuple.__len__(value), len(fields))
            return {str(fields[i]): tuple.__getitem__(value, i) for i in range(size)}
        place = own.get("__dict__")
        if type(place) is types.GetSetDescriptorType:
            content = place.__get__(value, kind)
            if type(content) is dict:
                found.update((name, each) for name, each in list(content.items()) if type(name) is str)
            break
    for owner in order:
        for name, slot in list(_qualified(owner, "__dict__").items()):
            if type(slot) is types.MemberDescriptorType and name not in found:
                try:
                    found[name] = slot.__get__(value, kind)
                except AttributeError:
                    continue  # a slot without a value
    return found


class Table:
    """Descriptions of values, each once."""

    def __init__(self) -> None:
        self.rows: List[Dict[str, Any]] = []
        self._known: Dict[str, int] = {}
        self.bytes = 0

    def add(self, value: Any, attributes: bool) -> int:
        """Index of the value's description.

        Keys: ``t`` type, ``v`` exact text, ``r`` shown text, ``n`` length, ``a`` attributes (indices).
        """
        row: Dict[str, Any] = {"t": type_name(value)}
        kind = type(value)
        try:
            row["v"] = _exact(value, [MOST_ITEMS], 0)
        except (_TooMuch, RuntimeError):
            # RuntimeError: another thread changed the container meanwhile.
            if kind is str or kind is bytes:
                row["r"] = repr(value[:MOST_TEXT])
            elif row["t"] in _SAFE_REPR:
                row["r"] = repr(value)[:MOST_TEXT]
        length = _length(value)
        if length is not None:
            row["n"] = length
        if attributes and "v" not in row and not issubclass(kind, UNSEEN):
            inner: Dict[str, int] = {}
            for name, each in attributes_of(value).items():
                if len(inner) >= MOST_ATTRIBUTES:
                    break
                if not name.startswith("__") and not issubclass(type(each), UNSEEN):
                    inner[name] = self.add(each, False)
            if inner:
                row["a"] = inner
        key = repr(row)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.rows)
            self.rows.append(row)
            self.bytes += len(key)
        return index
