"""A duplex byte stream to a long-lived helper process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import ToolError
from .exits import exit_status, when_ended
from .spawn import spawn
from .tree import ProcessTree

_LINE_LIMIT = 64 << 20
_ERROR_BYTES = 64 << 10
_CLOSE_GRACE_S = 1.0


class ProcessChannel:
    """Stdin and stdout of a helper (implements ``Channel``). Made by ``open_process_channel``."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        tree: ProcessTree,
        reader: asyncio.StreamReader,
        reader_transport: asyncio.ReadTransport,
        writer: asyncio.StreamWriter,
        error_pipe: int,
    ) -> None:
        self._popen = popen
        self._tree = tree
        self._reader = reader
        self._reader_transport = reader_transport
        self._writer = writer
        self._error_pipe = error_pipe
        self._errors = bytearray()
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[int] | None = None
        os.set_blocking(error_pipe, False)
        self._loop.add_reader(error_pipe, self._on_errors)

    @property
    def pid(self) -> int:
        """The helper's process id on the host."""
        return self._popen.pid

    @property
    def closed(self) -> bool:
        """Whether ``close`` is through."""
        return self._closing is not None and self._closing.done()

    async def send(self, data: bytes) -> None:
        """Writes all of ``data``. Raises ToolError when the helper has gone."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise self._gone() from error

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """At least one byte, or b"" at end of stream."""
        return await self._reader.read(max_bytes)

    async def receive_line(self) -> bytes:
        """One line with its newline, or b"" at end of stream. Raises ToolError beyond 64 MiB."""
        try:
            return await self._reader.readline()
        except ValueError as error:
            raise ToolError("the helper sent a line of more than 64 MiB") from error

    def errors(self) -> bytes:
        """The last 64 KiB the helper wrote to stderr."""
        self._on_errors()
        return bytes(self._errors)

    async def close(self, grace_s: float = _CLOSE_GRACE_S) -> int:
        """Closes stdin, waits a moment, then ends the helper's whole tree; returns its exit code.

        ``grace_s``: seconds for leaving by itself, and once more between SIGTERM and SIGKILL.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(grace_s))
        return await asyncio.shield(self._closing)

    def kill_now(self) -> None:
        """SIGKILL to the whole tree without awaiting."""
        if self._popen.returncode is None:
            self._tree.kill_now()

    async def _close(self, grace_s: float) -> int:
        try:
            self._writer.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(when_ended(self._popen.pid), grace_s)
            await self._tree.end(grace_s)
        except BaseException:
            # The loop is going down: the helper must not outlive it.
            self._tree.kill_now()
            raise
        finally:
            self._reader_transport.close()
            self._on_errors()
            if self._error_pipe >= 0:
                self._loop.remove_reader(self._error_pipe)
                os.close(self._error_pipe)
                self._error_pipe = -1
            self._popen.wait()
            self._tree.close()
        return exit_status(self._popen.returncode)

    def _on_errors(self) -> None:
        for _ in range(16):
            if self._error_pipe < 0:
                return
            try:
                data = os.read(self._error_pipe, 65536)
            except (BlockingIOError, InterruptedError):
                return
            if not data:
                self._loop.remove_reader(self._error_pipe)
                os.close(self._error_pipe)
                self._error_pipe = -1
                return
            self._errors += data
            del self._errors[:-_ERROR_BYTES]

    def _gone(self) -> ToolError:
        lines = self.errors().decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1][:200]}" if lines else ""
        return ToolError(f"the helper process has ended{said}")


async def open_process_channel(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    user: int | None = None,
    group: int | None = None,
    rlimits: Mapping[int, tuple[int, int]] | None = None,
) -> ProcessChannel:
    """Starts a helper with pipes for stdin, stdout and stderr.

    Raises:
        ToolError: the program or the working directory cannot be used.
    """
    popen, tree = spawn(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        user=user,
        group=group,
        rlimits=rlimits,
    )
    assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    reader_transport: asyncio.ReadTransport | None = None
    try:
        reader_transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), popen.stdout
        )
        writer_transport, writer_protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, popen.stdin
        )
    except BaseException:
        tree.kill_now()
        popen.wait()
        tree.close()
        # The loop closes the pipe it was connecting; the others are ours.
        popen.stderr.close()
        if reader_transport is None:
            popen.stdin.close()
        else:
            reader_transport.close()
        raise
    writer = asyncio.StreamWriter(writer_transport, writer_protocol, None, loop)
    error_pipe = os.dup(popen.stderr.fileno())
    popen.stderr.close()
    return ProcessChannel(popen, tree, reader, reader_transport, writer, error_pipe)
