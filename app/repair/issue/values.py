"""Values written in an issue: found at a place of a text, compared with what a run showed."""

from __future__ import annotations

import ast
import re
import warnings

_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?(?![\w%])")
_WORD = re.compile(r"(?:None|True|False)\b")
_CALLED = re.compile(r"[A-Za-z_][\w.]*(?=\()")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration|NotFound|Invalid)\b"
)
_EMPTY = re.compile(r"(?:an?\s+)?empty\s+(list|tuple|dict(?:ionary)?|set|string|str)\b", re.IGNORECASE)
_EMPTY_SOURCE = {"l": "[]", "t": "()", "d": "{}", "s": "''"}
_SPAN = re.compile(r"(`{1,2})(?P<code>.+?)\1")
_FILLER = re.compile(
    r"(?:\s|[:=,*_]|(?:the|an?|value|result|output|string|list|number|of|to|it|is|was|were|be|been|only|just"
    r"|always|me|us|an|error|exception|with|like|this|that|something|wrongly|incorrectly|now|still|und|der|die|das"
    r"|un|une|el|la|le|aber|but)\b(?!\())*",
    re.IGNORECASE,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MAX_VALUE = 2000


def literal(text: str) -> tuple[bool, object]:
    """(True, value) for a Python literal, (False, None) otherwise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return True, ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False, None


def balanced(text: str, at: int) -> int | None:
    """The index behind the bracket or quoted string that opens at ``at``; None when it never closes."""
    opening = text[at]
    if opening in "\"'":
        return _behind_string(text, at)
    depth: list[str] = []
    limit = min(len(text), at + _MAX_VALUE)
    while at < limit:
        character = text[at]
        if character in "\"'":
            end = _behind_string(text, at)
            if end is None:
                return None
            at = end
            continue
        if character in _CLOSING:
            depth.append(_CLOSING[character])
        elif depth and character == depth[-1]:
            depth.pop()
            if not depth:
                return at + 1
        elif character in ")]}":
            return None
        at += 1
    return None


def _behind_string(text: str, at: int) -> int | None:
    quote = text[at : at + 3] if text[at : at + 3] in ('"""', "'''") else text[at]
    position = at + len(quote)
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text.startswith(quote, position):
            return position + len(quote)
        if text[position] == "\n" and len(quote) == 1:
            return None
        position += 1
    return None


def value_at(text: str, at: int) -> tuple[str, int] | None:
    """The value that a text holds from ``at`` on, after words like "the value": (its source, index behind).

    A code span gives its content as it is; otherwise literals, calls and exception names count.
    """
    fill = _FILLER.match(text, at)
    at = fill.end() if fill else at
    if at >= len(text):
        return None
    span = _SPAN.match(text, at)
    if span:
        return span["code"].strip(), span.end()
    empty = _EMPTY.match(text, at)
    if empty:
        word = empty[1].lower()
        return ("set()" if word == "set" else _EMPTY_SOURCE[word[0]]), empty.end()
    prefix = re.match(r"[bru]{1,2}(?=[\"'])", text[at:], re.IGNORECASE)
    start = at
    if prefix:
        at += prefix.end()
    if text[at] in "\"'([{":
        end = balanced(text, at)
        if end is not None and literal(text[start:end])[0]:
            return text[start:end], end
        return None
    for pattern in (_WORD, _NUMBER):
        match = pattern.match(text, at)
        if match:
            value = match[0].rstrip(".") if match[0].endswith(".") else match[0]
            return value, at + len(value)
    exception = _EXCEPTION.match(text, at)
    if exception:
        return exception[0], exception.end()
    call = _CALLED.match(text, at)
    if call:
        end = balanced(text, call.end())
        if end is not None:
            return text[at:end], end
    return None


def is_exception_name(text: str) -> bool:
    """Whether a value is the name of an exception class, as far as its spelling tells."""
    return _EXCEPTION.fullmatch(text.strip()) is not None


def same_value(text: str, shown_repr: str, shown_str: str) -> bool:
    """Whether what an issue says is the value that a run showed (by its ``repr`` and ``str``)."""
    text = text.strip()
    if text in (shown_repr, shown_str):
        return True
    ours, mine = literal(text)
    theirs, actual = literal(shown_repr)
    if ours and theirs:
        numbers = (int, float, complex)
        both = isinstance(mine, numbers) and isinstance(actual, numbers)
        boolean = isinstance(mine, bool) == isinstance(actual, bool)
        if (both and boolean) or type(mine) is type(actual):
            return bool(mine == actual)
    flat = " ".join(text.split())
    if flat and flat in (" ".join(shown_repr.split()), " ".join(shown_str.split())):
        return True
    return "..." in text and _with_gaps(text, shown_repr, shown_str)


def _with_gaps(text: str, *shown: str) -> bool:
    pieces = [re.escape(" ".join(piece.split())) for piece in text.split("...")]
    if not any(pieces):
        return False
    pattern = re.compile(r"\s*.*\s*".join(pieces), re.DOTALL)
    return any(pattern.fullmatch(" ".join(each.split())) for each in shown)
