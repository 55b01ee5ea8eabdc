"""A command inside bubblewrap: the process runner's handle, plus what only the sandbox knows."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from ..base.errors import SandboxDied, ToolError
from ..base.process import ProcessChannel, ProcessHandle
from ..base.results import ExecResult
from .program import diagnose
from .status import BwrapStatus, end_namespace, forget, read_status

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


class BwrapHandle:
    """Implements ``RunHandle``. The command's pid namespace is empty when ``wait`` or ``kill`` returns.

    A task of its own sees the command to its end, so that it ends properly also when whoever
    waits for it, or kills it, is cancelled meanwhile.
    """

    def __init__(
        self, inner: ProcessHandle, status: Path, on_end: Callable[[BwrapHandle], list[str]]
    ) -> None:
        self._inner = inner
        self._status = status
        self._on_end = on_end
        self._task = asyncio.get_running_loop().create_task(self._supervise())
        # Nobody may be waiting; what a waiter would raise is no news to the event loop then.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self.limit_note = ""
        """Set by the disk watchdog before it ends the command."""

    @property
    def argv(self) -> tuple[str, ...]:
        return self._inner.argv

    def inside_pid(self) -> int | None:
        """Host pid of the first process of the command's pid namespace, once there is one."""
        return read_status(self._status).child_pid

    def output(self) -> AsyncIterator[bytes]:
        return self._inner.output()

    async def wait(self) -> ExecResult:
        """As ``RunHandle.wait``.

        Raises:
            SandboxDied: bubblewrap could not be set up any more.
            ToolError: the working directory does not exist inside.
        """
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.kill()
            raise

    async def kill(self) -> None:
        self._inner.end()
        # Why a command that was ended did not start no longer matters to whoever ended it.
        await asyncio.wait([self._task])

    async def _supervise(self) -> ExecResult:
        try:
            result = await self._inner.wait()
            status = read_status(self._status)
            if status.child_pid is not None:
                await end_namespace(status.child_pid)
        finally:
            notes = self._on_end(self)
            forget(self._status)
        return self._settled(result, status, notes)

    def _settled(self, result: ExecResult, status: BwrapStatus, notes: list[str]) -> ExecResult:
        # Words of our own launcher and of bubblewrap come first, before anything the command prints.
        said = result.head[:4096].decode("utf-8", "replace")
        exit_code = result.exit_code
        # Without an exit code in the status the command never ran: these words are bubblewrap's.
        if status.exit_code is None and not (result.killed or result.timed_out):
            if said.startswith("bwrap: execvp "):
                exit_code = _NOT_EXECUTABLE if "Permission denied" in said else _NOT_FOUND
            elif "bwrap: Can't chdir to" in said:
                raise ToolError(f"the working directory {result.cwd} does not exist in the sandbox")
            else:
                raise SandboxDied(diagnose(said))
        own = "" if self.limit_note and result.killed else result.note
        note = "; ".join(part for part in (self.limit_note, own, *notes) if part)
        return dataclasses.replace(result, exit_code=exit_code, note=note)


class BwrapChannel:
    """Implements ``Channel``; its helper's pid namespace is empty when ``close`` returns."""

    def __init__(self, inner: ProcessChannel, status: Path, on_end: Callable[[BwrapChannel], None]) -> None:
        self._inner = inner
        self._status = status
        self._on_end = on_end
        self._closing: asyncio.Task[int] | None = None

    def inside_pid(self) -> int | None:
        return read_status(self._status).child_pid

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._inner.receive(max_bytes)

    async def receive_line(self) -> bytes:
        return await self._inner.receive_line()

    def errors(self) -> bytes:
        return self._inner.errors()

    async def close(self) -> int:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> int:
        try:
            exit_code = await self._inner.close()
            pid = self.inside_pid()
            if pid is not None:
                await end_namespace(pid)
        finally:
            forget(self._status)
            self._on_end(self)
        return exit_code
