"""Thinking that a server without a reasoning parser leaves inside the text, as ``<think>...</think>``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

FIELD = "think_tags"
"""Stands for the name of a field: such thinking goes back inside the text, where it came from."""

OPEN, CLOSE = "<think>", "</think>"

Channel = Literal["text", "reasoning"]


class TagSplitter:
    """Pieces of text in, pieces of thinking and text out. Only a tag at the very beginning counts."""

    def __init__(self) -> None:
        self._state: Literal["start", "inside", "text"] = "start"
        self._held = ""
        self.found = False
        """Whether the answer began with the tag."""

    def feed(self, text: str) -> Iterator[tuple[Channel, str]]:
        """What is certain by now."""
        if self._state == "text":
            yield "text", text
            return
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip()
            if OPEN.startswith(begun) and len(begun) < len(OPEN):
                return
            if not begun.startswith(OPEN):
                yield from self._rest("text")
                return
            self._state, self._held, self.found = "inside", begun[len(OPEN) :], True
        thought, closed, after = self._held.partition(CLOSE)
        if closed:
            self._held = after
            if thought:
                yield "reasoning", thought
            yield from self._rest("text")
            return
        keep = next((size for size in range(len(CLOSE) - 1, 0, -1) if self._held.endswith(CLOSE[:size])), 0)
        sure = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        if sure:
            yield "reasoning", sure

    def end(self) -> Iterator[tuple[Channel, str]]:
        """What was held back when the answer ends."""
        yield from self._rest("reasoning" if self._state == "inside" else "text")

    def _rest(self, channel: Channel) -> Iterator[tuple[Channel, str]]:
        held, self._held, self._state = self._held, "", "text"
        if held:
            yield channel, held
