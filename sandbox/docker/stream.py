"""The byte stream of one exec: a thread reads the daemon's multiplexed frames and hands them on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_MAX_FRAME = 1 << 24


class ExecStream:
    """A hijacked exec connection.

    The SDK's own reader drops what arrived together with the HTTP headers; this one reads
    from the response's buffer and loses nothing.

    Args:
        connection: what ``exec_start(socket=True)`` returned.
        on_output: called in the reader thread with (stream number: 1 stdout, 2 stderr; data).
            It may block: that holds the command back.
    """

    def __init__(self, connection: Any, on_output: Callable[[int, bytes], None]) -> None:
        self._response = getattr(connection, "_response", None)
        self._socket: socket.socket = getattr(connection, "_sock", connection)
        self._socket.settimeout(None)
        self._source = self._response.raw._fp.fp if self._response is not None else connection
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set when the stream is at its end, whatever the reason."""
        self._writer: ThreadPoolExecutor | None = None
        self._thread = threading.Thread(target=self._read, name="whimbrel-exec", daemon=True)
        self._thread.start()

    async def send(self, data: bytes) -> None:
        """Writes to the command's stdin; waits while it does not read. Raises OSError when it is gone."""
        if self._writer is None:
            # A thread of its own: a helper that does not read must not occupy the shared pool.
            self._writer = ThreadPoolExecutor(1, "whimbrel-exec-stdin")
        await self._loop.run_in_executor(self._writer, self._socket.sendall, data)

    def end_input(self) -> None:
        """Closes the command's stdin."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Cuts the connection; the reader thread ends."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._writer is not None:
            self._writer.shutdown(wait=False, cancel_futures=True)

    def _read(self) -> None:
        try:
            while True:
                header = self._source.read(8)
                if len(header) < 8:
                    return
                number, size = struct.unpack(">BxxxL", header)
                if number > 2 or size > _MAX_FRAME:
                    return
                data = self._source.read(size)
                if data:
                    self._on_output(number, data)
                if len(data) < size:
                    return
        except (OSError, ValueError):
            # The daemon went away or close() cut the line: both are the end of the stream.
            return
        finally:
            with contextlib.suppress(Exception):  # closing a cut connection may fail in any layer
                if self._response is not None:
                    self._response.close()
            with contextlib.suppress(RuntimeError):  # the loop may be gone by now
                self._loop.call_soon_threadsafe(self.ended.set)
