"""A duplex byte stream to a helper inside the container (implements ``Channel``)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence

from ..base.errors import ToolError
from .container import Container
from .stream import ExecStream

_LINE_LIMIT = 64 << 20
_HIGH_WATER = 96 << 20
"""Beyond this much unread output the helper is held back; above the line limit, so that a line fits."""
_ERROR_BYTES = 64 << 10
_CLOSE_GRACE_S = 1.0


class DockerChannel:
    """Made by ``DockerChannel`` and ``start``."""

    def __init__(self, container: Container, mark: str, on_end: Callable[[DockerChannel], None]) -> None:
        self._container = container
        self._mark = mark
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._scanned = 0
        self._errors = bytearray()
        self._room = threading.Condition()
        self._news = asyncio.Event()
        self._closed = False
        self._abandoned = False
        self._exec_id = ""
        self._stream: ExecStream | None = None
        self._closing: asyncio.Task[int] | None = None

    async def start(self, argv: Sequence[str], directory: str, env: Mapping[str, str] | None) -> None:
        """Starts the helper. Raises SandboxDied when the container is gone."""
        self._exec_id, self._stream = await self._container.enter(
            "channel", [directory, *argv], self._take, env=env, mark=self._mark, stdin=True
        )

    async def send(self, data: bytes) -> None:
        """Writes all of ``data``. Raises ToolError when the helper has gone, SandboxDied with the sandbox."""
        stream = self._open_stream()
        try:
            await stream.send(data)
        except (OSError, RuntimeError) as error:
            await self._container.require_alive()
            raise self._gone() from error

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """At least one byte, or b"" at end of stream."""
        while True:
            if self._buffer:
                return self._cut(min(max_bytes, len(self._buffer)))
            if not await self._more():
                return b""

    async def receive_line(self) -> bytes:
        """One line with its newline, or b"" at end of stream. Raises ToolError beyond 64 MiB."""
        while True:
            with self._room:
                at = self._buffer.find(b"\n", self._scanned)
                self._scanned = len(self._buffer)
            if at >= 0:
                return self._cut(at + 1)
            if len(self._buffer) > _LINE_LIMIT:
                raise ToolError("the helper sent a line of more than 64 MiB")
            if not await self._more():
                return self._cut(len(self._buffer))

    def errors(self) -> bytes:
        """The last 64 KiB the helper wrote to stderr."""
        with self._room:
            return bytes(self._errors)

    async def close(self) -> int:
        """Closes stdin, waits a moment, then ends the helper's whole tree; returns its exit code."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        return await asyncio.shield(self._closing)

    def abandon(self) -> None:
        """The container is about to be removed on purpose: the helper ends with it."""
        self._abandoned = True

    async def _close(self) -> int:
        stream = self._open_stream()
        with self._room:
            self._closed = True
            self._room.notify_all()
        try:
            if self._abandoned:
                return 137
            stream.end_input()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_GRACE_S):
                    await stream.ended.wait()
            if not stream.ended.is_set() and not await self._container.end_exec(self._exec_id, self._mark):
                await self._container.restart()
            return await self._container.exit_code(self._exec_id)
        finally:
            stream.close()
            self._on_end(self)

    def _open_stream(self) -> ExecStream:
        if self._stream is None:
            raise ToolError("the helper was never started")
        return self._stream

    def _take(self, number: int, data: bytes) -> None:
        """In the reader thread."""
        with self._room:
            if number == 2:
                self._errors += data
                del self._errors[:-_ERROR_BYTES]
                return
            while len(self._buffer) > _HIGH_WATER and not self._closed:
                self._room.wait()
            if self._closed:
                return
            self._buffer += data
        self._loop.call_soon_threadsafe(self._news.set)

    def _cut(self, size: int) -> bytes:
        with self._room:
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._scanned = 0
            self._room.notify_all()
        return data

    async def _more(self) -> bool:
        """Waits for more output; False at the end of the stream."""
        stream = self._open_stream()
        size = len(self._buffer)
        self._news.clear()
        if len(self._buffer) > size:
            return True
        if stream.ended.is_set():
            return False
        news = asyncio.ensure_future(self._news.wait())
        end = asyncio.ensure_future(stream.ended.wait())
        try:
            await asyncio.wait((news, end), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            end.cancel()
        return len(self._buffer) > size or not stream.ended.is_set()

    def _gone(self) -> ToolError:
        lines = self.errors().decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1][:200]}" if lines else ""
        return ToolError(f"the helper process has ended{said}")
