"""Reading of JSON that anybody may have sent: each wrong thing is one line that names the field."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from .backend import Refused, Unsupported

DEEPEST = 128
"""Nested lists and objects of a body; schemas of tools rarely have twenty."""
LARGEST = 1 << 53
"""Of whole numbers: what every JSON library keeps exactly."""

_TOO_DEEP = f"the body is nested more than {DEEPEST} levels deep"


class Malformed(Refused):
    """The body is no JSON object that can be read."""

    code = "invalid_json"


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in a body.

    Raises:
        Malformed: no UTF-8, no JSON, no object, nested too deeply, a number beyond all measure, or half
            of a surrogate pair.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8 (byte {error.start})") from error
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_float)
    except json.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error.msg} at character {error.pos}") from error
    except ValueError as error:
        raise Malformed("the body is not JSON: it holds a number that cannot be read") from error
    except RecursionError as error:
        raise Malformed(_TOO_DEEP) from error
    if _deeper_than(value, DEEPEST):
        raise Malformed(_TOO_DEEP)
    if not isinstance(value, dict):
        raise Malformed("the body must be a JSON object")
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise Malformed("the body holds half of a surrogate pair") from error
    return cast(dict[str, Any], value)


class Fields:
    """An object whose fields are asked for by name and type; null counts as not given."""

    def __init__(self, values: Any, where: str = "") -> None:
        if not isinstance(values, dict):
            raise Refused(f"{where or 'the body'} must be an object", parameter=where)
        self.values = cast(dict[str, Any], values)
        self.where = where

    def name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def refuse(self, key: str, why: str) -> NoReturn:
        raise Refused(f"{self.name(key)} {why}", parameter=self.name(key))

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def given(self) -> Iterable[str]:
        return (key for key, value in self.values.items() if value is not None)

    def known(self, read: Collection[str], neutral: Mapping[str, Any]) -> None:
        """Raises Unsupported for the first field that nobody reads, unless it has the value (in ``neutral``;
        ``...``: any value) with which it asks for nothing."""
        for key in self.given():
            if key in read or (key in neutral and _same(self.values[key], neutral[key])):
                continue
            wanted = key in neutral
            raise Unsupported(
                self.name(key[:64]), "only its default is" if wanted else "this server does not know it"
            )

    def text(self, key: str, *, longest: int | None = None) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse(key, "must be a string")
        if longest is not None and len(value) > longest:
            self.refuse(key, f"must not be longer than {longest} characters")
        return value

    def need_text(self, key: str, *, longest: int | None = None) -> str:
        value = self.text(key, longest=longest)
        if value is None:
            self.refuse(key, "is missing")
        return value

    def flag(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, "must be true or false")
        return value

    def integer(self, key: str, least: int, most: int = LARGEST) -> int | None:
        value = self.values.get(key)
        if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST:
            value = int(value)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(key, "must be a whole number")
        if not least <= value <= most:
            self.refuse(key, f"must lie between {least} and {most}")
        return value

    def number(self, key: str, least: float, most: float) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.refuse(key, "must be a number")
        if not least <= value <= most:
            self.refuse(key, f"must lie between {least:g} and {most:g}")
        return float(value)

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        value = self.text(key)
        if value is not None and value not in allowed:
            self.refuse(key, f"must be one of {', '.join(allowed)}")
        return value

    def inner(self, key: str) -> Fields | None:
        value = self.values.get(key)
        return None if value is None else Fields(value, self.name(key))

    def need_inner(self, key: str) -> Fields:
        value = self.inner(key)
        if value is None:
            self.refuse(key, "is missing")
        return value

    def list_of(self, key: str, *, most: int) -> list[Any]:
        """The entries of a list, none where it is not given."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(key, "must be a list")
        entries = cast(list[Any], value)
        if len(entries) > most:
            self.refuse(key, f"must not have more than {most} entries")
        return entries

    def objects(self, key: str, *, most: int) -> list[Fields]:
        return [
            Fields(value, f"{self.name(key)}[{number}]")
            for number, value in enumerate(self.list_of(key, most=most))
        ]


def _same(value: Any, neutral: Any) -> bool:
    if neutral is ...:
        return True
    # 1 is not true here, and 1.0 is 1.
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


def _deeper_than(value: Any, limit: int) -> bool:
    """Level by level: what comes may be nested to confuse a walker that calls itself."""
    level: list[Any] = [value]
    for _ in range(limit + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list) and each
            for child in (cast(Any, each.values()) if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text[:40])
    return value
