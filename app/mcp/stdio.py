"""The stdio transport over the house's own process channel: bounded lines, no survivors.

A server may print anything. Lines that are no protocol are left out (the first is kept for
messages); a result that is too large is replaced by an error for the call it belongs to.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from ...sandbox.base.channel import ProcessChannel
from ...sandbox.base.errors import ToolError
from ..invisible import visible_line

MAX_LINE_BYTES = 16 << 20
"""Of one message."""
MAX_GARBAGE_BYTES = 1 << 20
"""After so much that is no protocol the server is given up."""
_CHUNK = 1 << 18
_ID = re.compile(rb'"id"\s*:\s*(\d+|"[^"\\]{1,80}")')


@dataclass
class Faults:
    """What a server did wrong, for messages."""

    garbage: str = ""
    """The first line that was no protocol message."""
    garbage_bytes: int = 0
    given_up: bool = False
    said: list[str] = field(default_factory=list[str])

    def explain(self) -> str:
        if self.given_up:
            return (
                f"it printed {self.garbage_bytes} bytes that are no protocol messages, first: {self.garbage}"
            )
        return f"it prints what is no protocol message: {self.garbage}" if self.garbage else ""


class _Lines:
    """Cuts a byte stream into lines of bounded length."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._size = 0
        self._tail = b""

    def feed(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """Complete lines as (bytes, true size); of a line over the limit only head and tail are kept."""
        lines: list[tuple[bytes, int]] = []
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            lines.append((bytes(self._kept) + self._tail, self._size))
            self._kept, self._size, self._tail = bytearray(), 0, b""
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_LINE_BYTES:
            self._kept += piece
        else:
            if len(self._kept) > 4096:
                self._tail = bytes(self._kept[-200:])
                del self._kept[4096:]
            self._tail = (self._tail + piece)[-200:]


@asynccontextmanager
async def stdio_streams(channel: ProcessChannel, faults: Faults) -> AsyncGenerator[tuple[Any, Any]]:
    """The message streams of a started server, as the session wants them. Does not end the process."""
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    # Room for a few messages: telling a server that does not read its input never blocks us.
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](64)

    async def read() -> None:
        lines = _Lines()
        async with to_session:
            while chunk := await channel.receive(_CHUNK):
                for line, size in lines.feed(chunk):
                    message = _message(line, size, faults)
                    if message is not None:
                        await to_session.send(message)
                if faults.given_up:
                    return

    async def write() -> None:
        async for item in from_session:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await channel.send(text.encode("utf-8", "replace") + b"\n")
            except ToolError:
                return  # it has gone; the reader sees the end of its output

    async with anyio.create_task_group() as group:
        group.start_soon(_quietly, read)
        group.start_soon(_quietly, write)
        try:
            yield incoming, outgoing
        finally:
            group.cancel_scope.cancel()
            for stream in (incoming, outgoing, to_session, from_session):
                stream.close()


async def _quietly(work: Any) -> None:
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await work()


def _message(line: bytes, size: int, faults: Faults) -> SessionMessage | None:
    if size > MAX_LINE_BYTES:
        return _too_large(line, size, faults)
    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        _garbage(line, size, faults)
        return None


def _too_large(line: bytes, size: int, faults: Faults) -> SessionMessage | None:
    """An error in place of the result, for the call whose id its head or its end names."""
    found = _ID.search(line[:400]) or next(reversed(list(_ID.finditer(line[-200:]))), None)
    if found is None or b'"jsonrpc"' not in line:
        _garbage(line, size, faults)
        return None
    raw = found[1].decode("utf-8", "replace")
    identifier = raw.strip('"') if raw.startswith('"') else int(raw)
    text = f"the result has {size} bytes; {MAX_LINE_BYTES} is the most that is read"
    error = ErrorData(code=INTERNAL_ERROR, message=text)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=error))


def _garbage(line: bytes, size: int, faults: Faults) -> None:
    faults.garbage = faults.garbage or repr(visible_line(line[:400].decode("utf-8", "replace"), 80))
    faults.garbage_bytes += size
    faults.given_up = faults.garbage_bytes > MAX_GARBAGE_BYTES
