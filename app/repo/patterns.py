"""The regular-expression dialect of text search: what both engines read alike.

ripgrep (Rust) and Python disagree in dozens of details. A pattern is therefore read
here once, refused in one line when one of the two could not do it (look-around,
back-references, possessive repeats...), and written out for each. A match never
crosses a line end; ``$`` also matches before the CR of a CRLF line; a brace that is no
repeat is a plain brace.

Known difference that remains: ``\\w`` follows each engine's Unicode tables (combining
marks are word characters in Rust only).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...sandbox.base.errors import ToolError

__all__ = ["Pattern", "compile_fixed", "compile_regex"]

_MAX_REPEAT = 1000
_HINT = "to search for the text as it is written, set fixed to true"
_RUST_META = set("\\.+*?()|[]{}^$#&-~")
_SIMPLE = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_GROUP = re.compile(r"\(\?(?:(:)|P?<([A-Za-z_][A-Za-z0-9_]*)>|([a-zA-Z]*(?:-[a-zA-Z]+)?)([:)]))")
_POSIX = {
    "alpha": "A-Za-z",
    "digit": "0-9",
    "alnum": "A-Za-z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\t\n\x0b\x0c\r ",
    "blank": r"\t ",
    "punct": r"!-/:-@\[-`{-~",
    "word": "A-Za-z0-9_",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True)
class Pattern:
    """One search pattern, written for both engines."""

    source: str
    rust: str
    python: str
    fixed: bool = False
    ignore_case: bool = False


def compile_fixed(text: str, *, ignore_case: bool = False) -> Pattern:
    """A plain text to look for.

    Raises:
        ToolError: it is empty or spans lines.
    """
    _check_line(text)
    return Pattern(text, text, re.escape(text), fixed=True, ignore_case=ignore_case)


def compile_regex(text: str, *, ignore_case: bool = False) -> Pattern:
    """Reads a regular expression.

    Raises:
        ToolError: it is not valid, or one of the engines cannot do it; the message says where.
    """
    _check_line(text)
    rust, python = _Reader(text).read()
    try:
        re.compile(python)
    except re.error as error:
        raise ToolError(f"not a valid regular expression: {error.msg}: {text!r}", hint=_HINT) from error
    return Pattern(text, rust, python, ignore_case=ignore_case)


def _check_line(text: str) -> None:
    if not text:
        raise ToolError("the search pattern is empty")
    if "\n" in text:
        raise ToolError(
            "the search pattern spans lines; text is searched line by line", hint="use one line of it"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError("the search pattern holds characters that are not valid Unicode") from error


class _Reader:
    """Reads a pattern from left to right and writes both dialects."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._rust: list[str] = []
        self._python: list[str] = []
        self._open: list[int] = []
        self._repeatable = False
        self._repeated = False

    def read(self) -> tuple[str, str]:
        while self._at < len(self._text):
            self._step()
        if self._open:
            raise self._bad("unclosed group", self._open[-1])
        return "".join(self._rust), "".join(self._python)

    def _bad(self, what: str, at: int | None = None) -> ToolError:
        position = (self._at if at is None else at) + 1
        return ToolError(f"not a usable regular expression: {what} at character {position}", hint=_HINT)

    def _put(self, rust: str, python: str | None = None, *, repeatable: bool = True) -> None:
        self._rust.append(rust)
        self._python.append(rust if python is None else python)
        self._repeatable, self._repeated = repeatable, False

    def _literal(self, char: str) -> None:
        rust = f"\\{char}" if char in _RUST_META else char
        if char == "\0" or (ord(char) < 32):
            rust = f"\\x{ord(char):02x}"
        self._put(rust, re.escape(char))

    def _step(self) -> None:
        char = self._text[self._at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._class()
        elif char == "(":
            self._group()
        elif char == ")":
            if not self._open:
                raise self._bad("unopened )")
            self._open.pop()
            self._put(")")
            self._at += 1
        elif char in "*+?" or (char == "{" and self._is_repeat()):
            self._quantifier(char)
        else:
            if char == "|":
                self._put("|", repeatable=False)
            elif char == ".":
                self._put(".")
            elif char == "^":
                self._put("^", repeatable=False)
            elif char == "$":
                self._put(r"(?:\r?$)", r"(?=\r?\Z)", repeatable=False)
            else:
                self._literal(char)
            self._at += 1

    def _is_repeat(self) -> bool:
        match = _REPEAT.match(self._text, self._at)
        return match is not None and bool(match[1] or match[3]) and self._repeatable

    def _quantifier(self, char: str) -> None:
        if not self._repeatable:
            raise self._bad(f"nothing to repeat before {char}")
        if self._repeated:
            raise self._bad("possessive or doubled repeat")
        written = char
        if char == "{":
            match = _REPEAT.match(self._text, self._at)
            assert match is not None
            low, comma, high = match[1] or "0", match[2], match[3]
            if max(int(low), int(high or 0)) > _MAX_REPEAT:
                raise self._bad(f"repeat count over {_MAX_REPEAT}")
            if high and int(high) < int(low):
                raise self._bad("repeat range in the wrong order")
            written = f"{{{low}{comma}{high}}}"
            self._at = match.end()
        else:
            self._at += 1
        if self._text.startswith("?", self._at):
            written += "?"
            self._at += 1
        self._put(written)
        self._repeated = True

    def _group(self) -> None:
        start = self._at
        if not self._text.startswith("(?", start):
            self._open.append(start)
            self._put("(", repeatable=False)
            self._at += 1
            return
        match = _GROUP.match(self._text, start)
        if match is None:
            names = {"=": "look-ahead", "!": "look-ahead", "<": "look-behind", ">": "atomic group"}
            raise self._bad(
                f"{names.get(self._text[start + 2 : start + 3], 'this kind of group')} not supported"
            )
        plain, name, flags, closing = match.groups()
        self._at = match.end()
        if plain:
            written = "(?:"
        elif name:
            written = f"(?P<{name}>"
        else:
            # Lines are matched one at a time: s and m change nothing; other flags differ between engines.
            if set(flags) - set("ims") or (closing == ")" and start != 0):
                raise self._bad(f"flags (?{flags}) not supported here", start)
            written = ("(?i" if "i" in flags else "(?") + closing
            written = "" if written == "(?)" else written
        if closing == ")":
            self._put(written, repeatable=False)
            return
        self._open.append(start)
        self._put(written, repeatable=False)

    def _escape(self) -> None:
        start = self._at
        char = self._text[start + 1 : start + 2]
        if not char:
            raise self._bad("lone \\ at the end")
        if char in _HEX_DIGITS or char in _SIMPLE or not char.isalnum():
            if char in "<>":
                raise self._bad(f"\\{char} not supported (\\b is the word boundary)")
            self._literal(self._character())
            return
        self._at += 2
        if char in "dw":
            self._put(f"\\{char}")
        elif char in "DWS":
            self._put(f"\\{char}", f"(?:(?!\\n)\\{char})")
        elif char == "s":
            self._put(r"\s", r"(?:(?![\n\x1c-\x1f])\s)")
        elif char in "bB":
            self._put(f"\\{char}", repeatable=False)
        elif char == "A":
            self._put("^", repeatable=False)
        elif char in "zZ":
            self._put("$", r"\Z", repeatable=False)
        elif char.isdigit():
            raise self._bad("back-references not supported", start)
        elif char == "n":
            raise self._bad("text is searched line by line, \\n cannot match", start)
        elif char in "pP":
            raise self._bad(f"Unicode classes (\\{char}) not supported", start)
        else:
            raise self._bad(f"unknown escape \\{char}", start)

    def _character(self) -> str:
        r"""The character an escape stands for (``\t``, ``\x41``, ``\u{1F600}``, ``\.``); moves past it."""
        start, char = self._at, self._text[self._at + 1]
        self._at += 2
        if char in _SIMPLE:
            return _SIMPLE[char]
        if char not in _HEX_DIGITS:
            return char
        braces = re.compile(r"\{([0-9A-Fa-f]{1,8})\}").match(self._text, self._at)
        digits = re.compile(f"[0-9A-Fa-f]{{{_HEX_DIGITS[char]}}}").match(self._text, self._at)
        found = braces or digits
        if found is None:
            raise self._bad(f"incomplete \\{char}", start)
        self._at = found.end()
        code = int(found[1] if braces else found[0], 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or code == 10:
            raise self._bad(f"\\{char} names no character of a line", start)
        return chr(code)

    def _class(self) -> None:
        start = self._at
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        parts: list[str] = []
        # In Python an undecodable byte stands as a newline in the line; no class may match it.
        guarded = negated
        first = True
        while True:
            if self._at >= len(self._text):
                raise self._bad("unclosed [", start)
            if self._text[self._at] == "]" and not first:
                self._at += 1
                break
            first = False
            posix = re.compile(r"\[:(\w+):\]").match(self._text, self._at)
            if posix:
                if posix[1] not in _POSIX:
                    raise self._bad(f"unknown class [:{posix[1]}:]")
                parts.append(_POSIX[posix[1]])
                guarded |= posix[1] == "space"
                self._at = posix.end()
                continue
            low = self._class_item()
            if low.startswith("\\") and low[1:] in "dwsDWS":
                parts.append(low)
                guarded |= low[1:] in "sDWS"
                continue
            text = self._text
            is_range = text.startswith("-", self._at) and not text.startswith("-]", self._at)
            if not is_range or self._at + 1 >= len(text):
                parts.append(_in_class(low))
                continue
            self._at += 1
            high = self._class_item()
            if len(high) != 1 or high < low:
                raise self._bad("range in the wrong order or with a class in it")
            parts.append(f"{_in_class(low)}-{_in_class(high)}")
        body = "".join(parts)
        rust = f"[{'^' if negated else ''}{body}]"
        self._put(rust, f"(?:(?!\\n){rust})" if guarded else rust)

    def _class_item(self) -> str:
        r"""One character, or a shorthand such as ``\d`` (two characters); moves past it."""
        char = self._text[self._at : self._at + 1]
        if char != "\\":
            self._at += 1
            return char
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise self._bad("lone \\ at the end")
        if following in "dwsDWS":
            self._at += 2
            return f"\\{following}"
        if following == "b" or (
            following.isalnum() and following not in _SIMPLE and following not in _HEX_DIGITS
        ):
            raise self._bad(f"\\{following} not supported inside [ ]")
        return self._character()


def _in_class(char: str) -> str:
    if ord(char) < 32:
        return f"\\x{ord(char):02x}"
    return f"\\{char}" if char in _RUST_META else char
