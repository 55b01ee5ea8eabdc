"""Foreign text made visible: characters that a person reading it would not see are taken out and counted.

Zero-width characters, direction marks, tag characters and control characters can carry
instructions that only a model reads. What steers a model, or comes from a server that a
person configured, is shown to it without them.
"""

from __future__ import annotations

import re
import unicodedata

_SUSPECT = re.compile(
    "[\x00-\x08\x0b-\x0d\x0e-\x1f\x7f-\x9f]"  # controls, without tab and newline
    "|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f]"
    "|[\u3164\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff]"
    "|[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
    "|[\ufe00-\ufe0f]{2,}"  # one selects a glyph, rows of them spell bytes
)
_NEWLINES = re.compile("\r\n?|[\u2028\u2029]")


def visible(text: str) -> tuple[str, int]:
    """The text without characters nobody sees, and how many were taken out; line ends become newlines."""
    text = _NEWLINES.sub("\n", text)
    if text.isascii() and text.isprintable():
        return text, 0
    removed = 0

    def drop(match: re.Match[str]) -> str:
        nonlocal removed
        removed += len(match[0])
        return ""

    return _SUSPECT.sub(drop, text), removed


def visible_line(text: str, limit: int) -> str:
    """One line of at most ``limit`` characters, for names and short descriptions."""
    line = " ".join(visible(unicodedata.normalize("NFC", text))[0].split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
