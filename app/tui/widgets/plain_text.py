"""Foreign text made fit for a terminal's cells: escapes, carriage returns and hidden characters.

What tools and models print is data. Nothing of it may move the cursor, change colours beyond its
own line, reorder text or open a link; widgets put only what these functions return on the screen.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

__all__ = ["clean", "clean_line", "counted", "link_target", "one_line"]

ESCAPE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # CSI
    "|\x1b[\\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC up to their end
    "|\x1b[ -/]*[0-~]"
    "|\x9b[0-?]*[ -/]*[@-~]"
    "|\x1b"
)
_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
_UNSEEN = re.compile(
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufff9-\ufffb{_BIDI}\ud800-\udfff]"
)
_SAFE_SCHEMES = frozenset({"http", "https", "mailto"})
TAB = 4


def clean(text: str) -> str:
    """Lines of any text, as a terminal would leave them: without escapes, returns and hidden characters."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\r" in text or "\b" in text or "\t" in text or _odd(text):
        return "\n".join(clean_line(line) for line in text.split("\n"))
    return text


def clean_line(line: str) -> str:
    """One line: what stays after its carriage returns and backspaces, tabs as spaces."""
    if "\x1b" in line or "\x9b" in line:
        line = ESCAPE.sub("", line)
    line = overwritten(line)
    if "\t" in line:
        line = line.expandtabs(TAB)
    return _UNSEEN.sub(_mark, line) if _odd(line) else line


def overwritten(line: str) -> str:
    """The line after carriage returns moved back to its start and backspaces one to the left."""
    line = line.removesuffix("\r")
    if "\r" in line:
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        line = shown
    if "\b" in line:
        kept: list[str] = []
        for character in line:
            if character == "\b":
                if kept:
                    kept.pop()
            else:
                kept.append(character)
        line = "".join(kept)
    return line


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: str, limit: int = 500) -> str:
    """The text on one line, cut to ``limit`` characters."""
    shown = " ".join(clean(text[: limit * 4]).split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def link_target(href: str) -> str | None:
    """The address when a terminal may be handed it (web and mail only), else None."""
    if len(href) > 2000 or any(ord(character) < 33 or ord(character) > 126 for character in href):
        return None
    try:
        parts = urlsplit(href)
    except ValueError:
        return None
    if parts.scheme.lower() not in _SAFE_SCHEMES or (parts.scheme.lower() != "mailto" and not parts.netloc):
        return None
    return href


def _odd(text: str) -> bool:
    return not text.isprintable() and _UNSEEN.search(text) is not None


def _mark(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 32:
        return chr(0x2400 + code)
    return "\u2421" if code == 127 else "\ufffd"
