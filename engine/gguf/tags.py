"""Thinking and tool calls inside a model's text: ``<think>...</think>``, ``<tool_call>{...}</tool_call>``.

The text comes in pieces that may end anywhere, also in the middle of a tag. Tags stay out of what a
person reads; what looks like the beginning of one is held back until it is clear.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal, cast

THINK, END_THINK = "<think>", "</think>"
CALL, END_CALL = "<tool_call>", "</tool_call>"
TAGS = (THINK, END_THINK, CALL, END_CALL)

_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*')


@dataclass(frozen=True)
class Piece:
    """Text of one kind; a call comes as a whole, with what stood between its tags."""

    kind: Literal["text", "reasoning", "call"]
    text: str


class TagParser:
    """Feed text, take pieces. ``state`` is what the next character belongs to."""

    def __init__(self, *, thinking: bool = False) -> None:
        """``thinking``: whether the prompt ended inside of a thinking block."""
        self.state: Literal["text", "reasoning", "call"] = "reasoning" if thinking else "text"
        self._buffer = ""
        self._searched = 0
        """Inside of a call: how much of the buffer was looked at before."""
        self._blank = True
        """Whether only blanks have come since the last tag: these are nobody's text."""

    @property
    def held(self) -> str:
        """What has come and is not given out yet; inside of a call all of it."""
        return self._buffer

    def feed(self, text: str) -> list[Piece]:
        """Pieces that are certain now."""
        self._buffer += text
        found: list[Piece] = []
        while self._step(found):
            pass
        return found

    def finish(self) -> list[Piece]:
        """What was held back; a call that never ended comes as it is."""
        rest, self._buffer = self._buffer, ""
        if self.state == "text" and self._blank:
            rest = rest.lstrip()
        return [Piece(self.state, rest)] if rest else []

    def _step(self, found: list[Piece]) -> bool:
        """Takes what lies before the next tag, and the tag; False when there is no whole one."""
        if self.state == "call":
            return self._end_of_call(found)
        # An end without a beginning is no text either: some templates open the block themselves.
        wanted = TAGS[:3] if self.state == "text" else (END_THINK,)
        places = [(place, tag) for tag in wanted if (place := self._buffer.find(tag)) >= 0]
        if not places:
            keep = max(_overlap(self._buffer, tag) for tag in wanted)
            self._give(found, self._buffer[: len(self._buffer) - keep])
            self._buffer = self._buffer[len(self._buffer) - keep :]
            return False
        place, tag = min(places)
        self._give(found, self._buffer[:place])
        self._buffer = self._buffer[place + len(tag) :]
        self.state = "reasoning" if tag == THINK else "call" if tag == CALL else "text"
        self._blank, self._searched = True, 0
        return True

    def _end_of_call(self, found: list[Piece]) -> bool:
        place = self._buffer.find(END_CALL, max(0, self._searched - len(END_CALL)))
        if place < 0:
            self._searched = len(self._buffer)
            return False
        body = self._buffer[:place]
        if _inside_string(body):
            # The tag is part of an argument.
            self._searched = place + 2 * len(END_CALL)
            return END_CALL in self._buffer[place + 1 :]
        found.append(Piece("call", body))
        self._buffer = self._buffer[place + len(END_CALL) :]
        self.state, self._blank = "text", True
        return True

    def _give(self, found: list[Piece], text: str) -> None:
        if self.state == "text" and self._blank:
            text = text.lstrip()
        if text:
            self._blank = False
            found.append(Piece(self.state, text))


def read_call(body: str) -> tuple[str, str]:
    """Name and arguments (raw JSON text) of what stands between the tags.

    Text that is no JSON keeps what can be recognised: the loop tells the model what is wrong with it.
    """
    body = body.strip()
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        call = cast(dict[str, object], value)
        arguments = call.get("arguments", call.get("parameters", {}))
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return str(call.get("name") or ""), raw
    name, start = _NAME.search(body), _ARGUMENTS.search(body)
    raw = body[start.end() :] if start else body
    return (name[1] if name else ""), raw.strip()


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of ``text`` that a tag begins with."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)


def _inside_string(body: str) -> bool:
    """Whether JSON text ends in the middle of a string."""
    inside = escaped = False
    for character in body:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = inside
        elif character == '"':
            inside = not inside
    return inside
