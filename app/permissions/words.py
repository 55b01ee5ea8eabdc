"""Words of a shell command as the shell will see them: quotes taken off, unknown parts marked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class Hole(Enum):
    """A part of a word that is only known when the command runs."""

    ANY = "any"
    """An expansion or substitution: any text."""
    STAR = "*"
    ONE = "?"


Part = str | Hole


@dataclass(frozen=True)
class Word:
    """One word; ``parts`` are literal texts and holes in their order."""

    raw: str
    parts: tuple[Part, ...]

    @cached_property
    def literal(self) -> str | None:
        """The whole text when nothing about it is unknown."""
        return "".join(map(str, self.parts)) if all(isinstance(part, str) for part in self.parts) else None

    @property
    def dynamic(self) -> bool:
        """Whether an expansion decides what it is."""
        return Hole.ANY in self.parts

    @property
    def shown(self) -> str:
        """Readable, with holes as ``*``, ``?`` and ``…``."""
        return "".join(p if isinstance(p, str) else {"any": "…"}.get(p.value, p.value) for p in self.parts)

    @property
    def prefix(self) -> str:
        """The literal text before the first hole."""
        first = self.parts[0] if self.parts else ""
        return first if isinstance(first, str) else ""


def plain(text: str) -> Word:
    """A word of exactly this text."""
    return Word(text, (text,) if text else ())


ANYTHING = Word("…", (Hole.ANY,))
"""A word that somebody else supplies at run time (xargs, find)."""

_EXPANDS = frozenset({"\\", "$", "`", '"', "\n"})
_ANSI = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def decode(raw: str, holes: dict[int, int]) -> Word:
    """Takes the quoting off.

    Args:
        raw: the word's source text.
        holes: start -> end offsets of expansions and substitutions in it.
    """
    parts: list[Part] = []
    text: list[str] = []

    def hole(kind: Hole) -> None:
        if text:
            parts.append("".join(text))
            text.clear()
        if kind is Hole.ONE or not parts or parts[-1] is not kind:
            parts.append(kind)

    at, quoted, end = 0, False, len(raw)
    while at < end:
        char = raw[at]
        if at in holes:
            hole(Hole.ANY)
            at = max(at + 1, holes[at])
        elif char == '"':
            quoted, at = not quoted, at + 1
        elif quoted:
            if char == "\\" and raw[at + 1 : at + 2] in _EXPANDS:
                if raw[at + 1] != "\n":
                    text.append(raw[at + 1])
                at += 2
            else:
                text.append(char)
                at += 1
        elif char == "\\":
            if raw[at + 1 : at + 2] != "\n":
                text.append(raw[at + 1 : at + 2])
            at += 2
        elif char == "'":
            close = raw.find("'", at + 1)
            close = end if close < 0 else close
            text.append(raw[at + 1 : close])
            at = close + 1
        elif char == "$" and raw[at + 1 : at + 2] == "'":
            at = _ansi(raw, at + 2, text)
        elif char == "$" and raw[at + 1 : at + 2] == '"':
            at += 1
        elif char == "*":
            hole(Hole.STAR)
            at += 1
        elif char == "?":
            hole(Hole.ONE)
            at += 1
        elif char == "[" and (close := _bracket_end(raw, at)):
            hole(Hole.ONE)
            at = close
        elif char == "{" and (close := _brace_end(raw, at)):
            # One of several texts: as unknown as a glob, and it may hold slashes.
            hole(Hole.ANY)
            at = close
        else:
            text.append(char)
            at += 1
    if text:
        parts.append("".join(text))
    return Word(raw, tuple(parts))


def _ansi(raw: str, at: int, text: list[str]) -> int:
    """Reads the inside of ``$'...'``; returns the offset behind it."""
    while at < len(raw) and raw[at] != "'":
        if raw[at] != "\\":
            text.append(raw[at])
            at += 1
            continue
        rest = raw[at + 1 :]
        number = re.match(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})", rest)
        if number:
            digits = number[1] or number[2] or number[3]
            code = int(digits, 16) if digits else int(number[4], 8)
            text.append(chr(code) if code <= 0x10FFFF else "\ufffd")
            at += 1 + number.end()
        elif rest[:1] == "c":
            text.append(chr(ord(rest[1:2] or "@") & 0x1F))
            at += 3
        else:
            text.append(_ANSI.get(rest[:1], "\\" + rest[:1]))
            at += 2
    return at + 1


def _bracket_end(raw: str, at: int) -> int:
    """Behind ``[...]`` when that is a glob, else 0."""
    close = raw.find("]", at + 2)
    return close + 1 if close > 0 and not re.search(r"[\s/]", raw[at:close]) else 0


def _brace_end(raw: str, at: int) -> int:
    """Behind ``{a,b}`` or ``{1..9}``, else 0."""
    depth = 0
    for place in range(at, len(raw)):
        depth += {"{": 1, "}": -1}.get(raw[place], 0)
        if depth == 0:
            inside = raw[at + 1 : place]
            return place + 1 if "," in inside or ".." in inside else 0
    return 0
