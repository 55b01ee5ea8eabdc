"""Reads call arguments that are nearly JSON, and only where they can mean one thing.

Taken: a code fence around the object, single quotes, trailing commas, Python's True, False
and None, closing brackets too many, backslashes of regular expressions and Windows paths that
JSON does not know. Not taken: anything unfinished (it may be cut off, and half a command
must not run), bare words, comments, keys twice, text around the object.
"""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_WORDS: dict[str, Any] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+(?!\w)")
_SPACE = re.compile(r"\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_AMBIGUOUS = frozenset("ntrbfu")
"""Escapes that would also be plausible as a backslash and a letter."""
_MAX_DEPTH = 50


def read_near_json(text: str) -> tuple[dict[str, Any], str] | None:
    """The object and what was wrong with its text, or None when its meaning is not certain."""
    faults: list[str] = []
    fenced = _FENCE.match(text)
    if fenced:
        faults.append("a code fence around it")
        text = fenced[1]
    reader = _Reader(text, faults)
    try:
        value = reader.whole()
    except _Unclear:
        return None
    if not isinstance(value, dict) or not faults:
        return None
    return value, ", ".join(dict.fromkeys(faults))


class _Unclear(Exception):
    """The text may mean more than one thing, or nothing."""


class _Reader:
    def __init__(self, text: str, faults: list[str]) -> None:
        self._text = text
        self._at = 0
        self._faults = faults

    def whole(self) -> Any:
        value = self._value(0)
        rest = self._text[self._at :].strip()
        if rest:
            if rest.strip("}] \t\r\n"):
                raise _Unclear
            self._faults.append("closing brackets too many")
        return value

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _Unclear
        head = self._peek()
        if head == "{":
            return self._object(depth)
        if head == "[":
            return self._array(depth)
        if head in ('"', "'"):
            return self._string()
        number = _NUMBER.match(self._text, self._at)
        if number:
            self._at = number.end()
            return float(number[0]) if re.search(r"[.eE]", number[0]) else int(number[0])
        word = _WORD.match(self._text, self._at)
        if word is None or word[0] not in _WORDS:
            raise _Unclear
        if word[0][0].isupper():
            self._faults.append(f"{word[0]} as Python writes it")
        self._at = word.end()
        return _WORDS[word[0]]

    def _object(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        self._at += 1
        while self._more("}", first=not result):
            if self._peek() not in ('"', "'"):
                raise _Unclear
            key = self._string()
            if key in result or self._peek() != ":":
                raise _Unclear
            self._at += 1
            result[key] = self._value(depth + 1)
        return result

    def _array(self, depth: int) -> list[Any]:
        result: list[Any] = []
        self._at += 1
        while self._more("]", first=not result):
            result.append(self._value(depth + 1))
        return result

    def _more(self, end: str, *, first: bool) -> bool:
        """Whether another item follows; steps over the comma before it, or over the end."""
        head = self._peek()
        if not first and head == ",":
            self._at += 1
            head = self._peek()
            if head == end:
                self._faults.append("a trailing comma")
        elif not first and head != end:
            raise _Unclear
        if head == end:
            self._at += 1
            return False
        return True

    def _string(self) -> str:
        quote = self._text[self._at]
        if quote == "'":
            self._faults.append("single quotes")
        pieces: list[str] = []
        plain = ambiguous = False
        at = self._at + 1
        while at < len(self._text) and self._text[at] != quote:
            char = self._text[at]
            if char != "\\":
                pieces.append(char)
                at += 1
                continue
            escape = self._text[at + 1 : at + 2]
            if not escape:
                raise _Unclear
            if escape == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", self._text[at + 2 : at + 6]):
                pieces.append(chr(int(self._text[at + 2 : at + 6], 16)))
                at, ambiguous = at + 6, True
                continue
            if escape in _ESCAPES:
                pieces.append(_ESCAPES[escape])
                ambiguous = ambiguous or escape in _AMBIGUOUS
            else:
                pieces.append("\\" + escape)
                plain = True
            at += 2
        if at >= len(self._text) or (plain and ambiguous):
            raise _Unclear
        if plain:
            self._faults.append("a backslash that is not doubled")
        self._at = at + 1
        return "".join(pieces)

    def _peek(self) -> str:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._text[self._at : self._at + 1]
