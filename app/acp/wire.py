"""Messages of the protocol as lines of JSON. What is no message is refused, and the next one counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600


class Lines:
    """The library's transport, over two streams.

    Args:
        reader: from the editor; its limit is the longest line that is read.
        writer: to the editor.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()

    async def send(self, message: Mapping[str, Any]) -> None:
        """One message, whole."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._sending:
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None: the editor has closed."""
        while True:
            line = await self._line()
            if line is None:
                await self._refuse(_PARSE_ERROR, "the message is longer than 50 MiB and was not read")
                continue
            if not line:
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE_ERROR, "that line is no JSON")
                continue
            if _well_formed(message):
                return message
            await self._refuse(_INVALID_REQUEST, "that is no message of the protocol")

    async def close(self) -> None:
        """Nothing is held that would need it."""

    async def _line(self) -> bytes | None:
        """A line; empty at the end; None for one over the limit, which is passed over."""
        too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                too_long = True
                await self._reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError as error:
                return b"" if too_long else error.partial
            else:
                return None if too_long else line

    async def _refuse(self, code: int, text: str) -> None:
        """The answer to what has no id that could be read."""
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})


def _well_formed(message: Any) -> bool:
    """Whether the library can take it: an object with a plain id, a name, and an error that is one."""
    if not isinstance(message, dict):
        return False
    fields = cast("dict[str, Any]", message)
    method, number, error = fields.get("method"), fields.get("id"), fields.get("error")
    return (
        isinstance(method, str | None)
        and isinstance(number, int | str | float | None)
        and (error is None or isinstance(error, dict))
        and ("method" in fields or "id" in fields)
    )
