"""Colours that programs print (SGR sequences) as styled text; every other escape is taken out."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from textual.color import Color
from textual.content import Content, Span
from textual.style import Style

from .plain_text import clean_line

__all__ = ["ansi_content"]

_SGR = re.compile("\x1b\\[([0-9;:]*)m")
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_LEVELS = (0, 95, 135, 175, 215, 255)


@dataclass(frozen=True)
class _Pen:
    foreground: Color | None = None
    background: Color | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False

    def style(self) -> Style:
        return Style(
            foreground=self.foreground,
            background=self.background,
            bold=self.bold or None,
            dim=self.dim or None,
            italic=self.italic or None,
            underline=self.underline or None,
            reverse=self.reverse or None,
        )


_PLAIN = _Pen()
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",)}


def ansi_content(line: str) -> Content:
    """One line: after its carriage returns, in the colours it asks for."""
    if "\x1b" not in line:
        return Content(clean_line(line))
    line = line.removesuffix("\r")
    if "\r" in line:
        # What comes after the last return overwrites the line; colours of what it covers are of no use.
        line = next((part for part in reversed(line.split("\r")) if part), "")
    parts: list[str] = []
    spans: list[Span] = []
    pen, at, length = _PLAIN, 0, 0
    for match in [*_SGR.finditer(line), None]:
        end = match.start() if match else len(line)
        text = clean_line(line[at:end])
        if text:
            if pen != _PLAIN:
                spans.append(Span(length, length + len(text), pen.style()))
            parts.append(text)
            length += len(text)
        if match:
            pen, at = _turned(pen, match[1]), match.end()
    return Content("".join(parts), spans)


def _turned(pen: _Pen, codes: str) -> _Pen:
    numbers = [int(code or 0) for code in re.split("[;:]", codes)][:32]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            pen = _PLAIN
        elif code in _FLAGS:
            pen = replace(pen, **{_FLAGS[code]: True})
        elif code in _OFF:
            pen = replace(pen, **dict.fromkeys(_OFF[code], False))
        elif code in (38, 48):
            colour = _extended(numbers)
            pen = replace(pen, **{"foreground" if code == 38 else "background": colour})
        elif code in (39, 49):
            pen = replace(pen, **{"foreground" if code == 39 else "background": None})
        elif 30 <= code <= 37 or 90 <= code <= 97:
            pen = replace(pen, foreground=_named(code % 10, code >= 90))
        elif 40 <= code <= 47 or 100 <= code <= 107:
            pen = replace(pen, background=_named(code % 10, code >= 100))
    return pen


def _named(index: int, bright: bool) -> Color:
    return Color.parse(f"ansi_{'bright_' if bright else ''}{_NAMES[index]}")


def _extended(numbers: list[int]) -> Color | None:
    kind = numbers.pop(0) if numbers else 0
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(255, numbers.pop(0)) for _ in range(3))
        return Color(red, green, blue)
    if kind == 5 and numbers:
        index = min(255, numbers.pop(0))
        if index < 16:
            return _named(index % 8, index >= 8)
        if index >= 232:
            grey = 8 + 10 * (index - 232)
            return Color(grey, grey, grey)
        index -= 16
        return Color(_LEVELS[index // 36], _LEVELS[index // 6 % 6], _LEVELS[index % 6])
    return None
