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
_MAX_PLAIN_BYTES = 16 << 20


class StreamParser:
    """Feed bytes, take JSON objects; ``done`` turns true at ``[DONE]``."""

    def __init__(self) -> None:
        self.done = False
        self._buffer = b""
        self._pending = ""
        self._plain = b""
        self._objects = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Objects completed by these bytes."""
        self._buffer += data
        lines = self._buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._buffer = lines.pop()
        if data.endswith(b"\r"):
            # The LF of a CRLF pair may follow in the next chunk; an extra empty line is harmless.
            self._buffer = b""
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[dict[str, Any]]:
        """Objects left when the body ends without a final newline, or a plain JSON body."""
        last, self._buffer = self._buffer, b""
        yield from self._line(last)
        if self._objects == 0 and self._plain.strip():
            try:
                value = json.loads(self._plain)
            except ValueError:
                return
            if isinstance(value, dict):
                self.done = True
                yield value

    @property
    def leftover(self) -> str:
        """Text that never became an object, for error messages."""
        return (self._pending or self._plain.decode("utf-8", "replace")).strip()[:2000]

    def _line(self, line: bytes) -> Iterator[dict[str, Any]]:
        if self.done or not line.strip():
            return
        if line.startswith(b"data:"):
            text = line[5:].decode("utf-8", "replace").strip()
            if text == "[DONE]":
                self.done = True
                return
            yield from self._data(text)
        elif not line.startswith(_FIELDS) and len(self._plain) < _MAX_PLAIN_BYTES:
            self._plain += line + b"\n"

    def _data(self, text: str) -> Iterator[dict[str, Any]]:
        for candidate in (text, f"{self._pending}\n{text}" if self._pending else ""):
            if not candidate:
                continue
            try:
                value = json.loads(candidate, strict=False)
            except ValueError:
                continue
            self._pending = ""
            if isinstance(value, dict):
                self._objects += 1
                yield value
            return
        self._pending = f"{self._pending}\n{text}" if self._pending else text
