"""Segments of the family's message language: control tokens, tags, attributes, bodies.

A segment is a text and whether names of special tokens in it are recognised. Every segment becomes tokens by
itself, and only those that we make ourselves are special: what a person, a file or a tool says can never
become a control token.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....sandbox.base.errors import ModelError

Segment = tuple[str, bool]
"""(text, special)"""

OPEN = "<|open|>"
CLOSE = "<|close|>"
SEP = "<|sep|>"
END = "<|end_of_msg|>"
CONTROL = (OPEN, CLOSE, SEP, END)


class PromptError(ModelError):
    """A conversation that this format cannot express; the message says which part."""

    status = "prompt"


def escaped(value: str) -> str:
    """An attribute's value as it stands between quotation marks."""
    return value.replace("&", "&amp;").replace('"', "&quot;")


def unescaped(value: str) -> str:
    return value.replace("&quot;", '"').replace("&amp;", "&")


class Segments:
    """Collects segments; empty texts emit nothing."""

    def __init__(self) -> None:
        self.all: list[Segment] = []

    def text(self, text: str) -> None:
        if text:
            self.all.append((text, False))

    def special(self, text: str) -> None:
        if text:
            self.all.append((text, True))

    def open(self, tag: str, attributes: Iterable[tuple[str, str]] = ()) -> None:
        self.special(OPEN)
        self.text(tag)
        for key, value in attributes:
            self.text(f" {key}")
            self.text('="')
            self.text(escaped(value))
            self.text('"')
        self.special(SEP)

    def close(self, tag: str) -> None:
        self.special(CLOSE)
        self.text(tag)
        self.special(SEP)

    def end_message(self) -> None:
        self.close("message")
        self.special(END)
