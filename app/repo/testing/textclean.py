"""Output of foreign programs made safe to show and to store: no escape sequences, no control bytes."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, hyperlinks
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # device strings
    r"|\x1b[@-Z\\-_()#][0-9A-Za-z]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\ud800-\udfff]")


def strip_escapes(text: str) -> str:
    """Removes terminal escape sequences; nothing else changes."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def clean_text(text: str) -> str:
    """Escape sequences removed, progress lines reduced to their last state, other control
    characters and lone surrogates shown as ``\\xNN`` / ``\\uNNNN``."""
    text = strip_escapes(text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return _CONTROLS.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)
