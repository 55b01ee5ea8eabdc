"""Server-sent events as chat servers really send them: bytes in, JSON objects out.

Tolerated: any chunking, CR, LF or CRLF line ends (and only those: U+2028 inside a JSON
string is no line end), comments and keep-alives, ``data:`` lines without a blank line
between them, one JSON text spread over several ``data:`` lines, a missing content
type, and a plain JSON body where a stream was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_FIELDS = (b"event:", b"id:", b"retry:", b":")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_PLAIN_BYTES = 16 << 20
MAX_ANSWER_BYTES = 64 << 20
"""Of one answer as it comes over the wire; no useful answer is near it."""


class AnswerTooLarge(Exception):
    """The server has sent more than MAX_ANSWER_BYTES."""


class StreamParser:
    """Feed bytes, take JSON objects; ``done`` turns true at ``[DONE]``."""

    def __init__(self) -> None:
        self.done = False
        self.damaged = False
        """Whether a piece was lost: JSON that began and never became whole."""
        self._buffer: list[bytes] = []
        self._total = 0
        self._pending = ""
        self._plain: list[bytes] = []
        self._plain_bytes = 0
        self._objects = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Objects completed by these bytes. Raises AnswerTooLarge."""
        self._total += len(data)
        if self._total > MAX_ANSWER_BYTES:
            raise AnswerTooLarge
        self._buffer.append(data)
        if b"\n" not in data and b"\r" not in data:
            # A long line is joined once, when it is complete.
            return
        lines = b"".join(self._buffer).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        # After a CR at the end the LF of the pair may follow: an extra empty line is harmless.
        self._buffer = [last] if (last := lines.pop()) else []
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[dict[str, Any]]:
        """Objects left when the body ends without a final newline, or a plain JSON body."""
        last, self._buffer = b"".join(self._buffer), []
        yield from self._line(last)
        plain = b"".join(self._plain)
        if self._objects == 0 and plain.strip():
            try:
                value = json.loads(plain)
            except (ValueError, RecursionError):
                return
            if isinstance(value, dict):
                self.done = True
                yield value

    @property
    def silent(self) -> bool:
        """Whether nothing has come at all, not even something that cannot be read."""
        return self._objects == 0 and not self.done and not self.leftover

    @property
    def leftover(self) -> str:
        """Text that never became an object, for error messages."""
        return (self._pending or b"".join(self._plain).decode("utf-8", "replace")).strip()[:4000]

    def _line(self, line: bytes) -> Iterator[dict[str, Any]]:
        if self._objects == 0:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if self.done or not line.strip():
            return
        if line.startswith(b"data:"):
            text = line[5:].decode("utf-8", "replace").strip()
            if text == "[DONE]":
                self.done = True
                return
            yield from self._data(text)
        elif not line.startswith(_FIELDS) and self._plain_bytes < _MAX_PLAIN_BYTES:
            self._plain.append(line + b"\n")
            self._plain_bytes += len(line)

    def _data(self, text: str) -> Iterator[dict[str, Any]]:
        for candidate in (text, f"{self._pending}\n{text}" if self._pending else ""):
            if not candidate:
                continue
            try:
                value = json.loads(candidate, strict=False)
            except (ValueError, RecursionError):
                continue
            if candidate is text and self._pending.startswith("{"):
                self.damaged = True
            self._pending = ""
            if isinstance(value, dict):
                self._objects += 1
                yield value
            return
        self._pending = f"{self._pending}\n{text}" if self._pending else text
