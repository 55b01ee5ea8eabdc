"""A command running inside the container (implements ``RunHandle``)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping

from ..base.environment import missing_variable_hint
from ..base.errors import SandboxDied
from ..base.output import OutputCapture
from ..base.results import ExecResult
from .container import Container
from .stream import ExecStream

_BACKLOG_BYTES = 1 << 20
_POLL_S = 2.0


class DockerCommand:
    """Made by ``DockerCommand.start``; its supervisor task ends with the command's whole tree."""

    def __init__(
        self,
        container: Container,
        capture: OutputCapture,
        *,
        mark: str,
        argv: tuple[str, ...],
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float | None,
        on_end: Callable[[DockerCommand], None],
    ) -> None:
        self._container = container
        self._capture = capture
        self._mark = mark
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._timeout_s = timeout_s
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._started = time.monotonic()
        self._kill_wanted = asyncio.Event()
        self._kill_note = ""
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._backlog_lock = threading.Lock()
        self._backlog_changed = asyncio.Event()
        self._wake_pending = False
        self._consumed = False
        self._abandoned = False
        self._over = False
        self._task: asyncio.Task[ExecResult] | None = None

    async def start(self, directory: str) -> None:
        """Enters the container. Raises SandboxDied when there is none any more."""
        exec_id, stream = await self._container.enter(
            "run", [directory, *self._argv], self._take, env=self._env, mark=self._mark
        )
        self._started = time.monotonic()
        self._task = self._loop.create_task(self._supervise(exec_id, stream))

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    async def output(self) -> AsyncIterator[bytes]:
        """Chunks as they arrive; a consumer more than 1 MiB behind loses the oldest ones."""
        if self._consumed:
            raise RuntimeError("the output of a command can be consumed only once")
        self._consumed = True
        while True:
            over = self._over
            while chunk := self._next_chunk():
                yield chunk
            if over:
                return
            self._backlog_changed.clear()
            if not self._backlog and not self._over:
                await self._backlog_changed.wait()

    async def wait(self) -> ExecResult:
        """Waits for the end; cancelling the waiter ends the command's whole tree first.

        Raises:
            SandboxDied: the container went away under the command.
        """
        assert self._task is not None
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.kill()
            raise

    async def kill(self, note: str = "ended on request") -> None:
        """Ends the whole tree; returns when it is gone; idempotent. The first ``note`` is kept."""
        if self._task is None:
            return
        self._kill_note = self._kill_note or note
        self._kill_wanted.set()
        await asyncio.wait([self._task])

    def abandon(self) -> None:
        """The container is about to be removed on purpose: the stream's end is then no loss."""
        self._abandoned = True

    async def settled(self) -> None:
        """Returns when the supervisor is through."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _take(self, _: int, data: bytes) -> None:
        """In the reader thread: blocking here holds the command back, so memory stays bounded."""
        self._capture.feed(data)
        with self._backlog_lock:
            self._backlog.append(data)
            self._backlog_bytes += len(data)
            while self._backlog_bytes > _BACKLOG_BYTES and len(self._backlog) > 1:
                self._backlog_bytes -= len(self._backlog.popleft())
            if self._wake_pending:
                return
            self._wake_pending = True
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._backlog_lock:
            self._wake_pending = False
        self._backlog_changed.set()

    def _next_chunk(self) -> bytes:
        with self._backlog_lock:
            if not self._backlog:
                return b""
            chunk = self._backlog.popleft()
            self._backlog_bytes -= len(chunk)
            return chunk

    async def _supervise(self, exec_id: str, stream: ExecStream) -> ExecResult:
        timed_out = killed = False
        notes: list[str] = []
        exit_code = 137
        try:
            try:
                ended = await self._watch(exec_id, stream)
            except SandboxDied:
                if not self._abandoned:
                    raise
                ended = True
            duration = time.monotonic() - self._started
            if self._abandoned:
                killed = True
                notes.append("the sandbox was stopped")
            elif not ended:
                killed = self._kill_wanted.is_set()
                timed_out = not killed
                notes.append(
                    self._kill_note if killed else f"ended at the time limit of {self._timeout_s:g} s"
                )
                notes += await self._end_tree(exec_id, stream)
            if not self._abandoned:
                exit_code = await self._container.exit_code(exec_id)
            if ended and not self._abandoned and exit_code >= 128:
                notes += await self._after_signal(exit_code)
        finally:
            stream.close()
            captured = self._capture.finish()
            self._over = True
            self._backlog_changed.set()
            self._remember(captured.tail or captured.head)
            self._on_end(self)
        if exit_code != 0 and not (timed_out or killed):
            hint = missing_variable_hint(captured.head + captured.tail, self._env)
            if hint:
                notes.append(hint)
        return captured.result(
            argv=self._argv,
            cwd=self._cwd,
            exit_code=exit_code,
            duration_s=duration,
            timed_out=timed_out,
            killed=killed,
            note="; ".join(note for note in notes if note),
        )

    async def _watch(self, exec_id: str, stream: ExecStream) -> bool:
        """Until the stream ends (True), or the time limit or a kill (False)."""
        stop_at = None if self._timeout_s is None else self._started + self._timeout_s
        ended = asyncio.ensure_future(stream.ended.wait())
        wanted = asyncio.ensure_future(self._kill_wanted.wait())
        try:
            while True:
                patience = _POLL_S if stop_at is None else min(_POLL_S, max(0.0, stop_at - time.monotonic()))
                done, _ = await asyncio.wait(
                    (ended, wanted), timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                if ended in done:
                    return True
                if wanted in done or (stop_at is not None and time.monotonic() >= stop_at):
                    return False
                state = await self._container.exec_state(exec_id)
                if not state.running and not stream.ended.is_set():
                    # Its shell is gone (killed from inside) but something still holds the pipe.
                    await self._container.end(self._mark)
                elif state.running:
                    # A container that was paused answers as if all were well, for ever.
                    await self._container.require_alive()
        finally:
            ended.cancel()
            wanted.cancel()

    async def _end_tree(self, exec_id: str, stream: ExecStream) -> list[str]:
        notes: list[str] = []
        if not await self._container.end_exec(exec_id, self._mark):
            await self._container.restart()
            notes.append(
                "its processes could not be ended from inside; "
                "the sandbox was restarted and its temporary files are gone"
            )
        try:
            async with asyncio.timeout(5):
                await stream.ended.wait()
        except TimeoutError:
            notes.append("its output did not end with it and was cut")
        return notes

    async def _after_signal(self, exit_code: int) -> list[str]:
        """A command that died of a signal may have taken its supervising shell along: look after the rest."""
        if not await self._container.end(self._mark):
            await self._container.restart()
            return ["its leftovers could not be ended from inside; the sandbox was restarted"]
        if exit_code == 137 and await self._container.out_of_memory():
            return ["the sandbox's memory limit was reached and a process was killed"]
        return []

    def _remember(self, output: bytes) -> None:
        lines = output.decode("utf-8", "replace").strip().splitlines()
        if lines:
            self._container.last_output = lines[-1].strip()[:200]
