"""The one way to run a command: own session, closed stdin, bounded output, no survivors.

``start_process`` returns a handle at once, ``run_process`` waits for the end,
``open_process_channel`` keeps a duplex stream to a helper. The environment, output and
channel parts are re-exported here, so that callers need this module only.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from .channel import ProcessChannel, open_process_channel
from .environment import base_environment, missing_variable_hint
from .exits import exit_status, when_ended
from .output import CapturedOutput, OutputCapture
from .render import FailingLine, failing_lines, render_output
from .results import ExecResult
from .spawn import spawn
from .tree import ProcessTree, end_all_trees

__all__ = [
    "CapturedOutput",
    "FailingLine",
    "OutputCapture",
    "ProcessChannel",
    "ProcessHandle",
    "base_environment",
    "end_all_processes",
    "failing_lines",
    "missing_variable_hint",
    "open_process_channel",
    "render_output",
    "run_process",
    "start_process",
]

TERM_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""
_DRAIN_QUIET_S = 0.3
_DRAIN_LIMIT_S = 2.0
_CHUNK = 1 << 18
_BACKLOG_BYTES = 1 << 20

_live: weakref.WeakSet[ProcessHandle] = weakref.WeakSet()


class ProcessHandle:
    """A running command (implements ``RunHandle``). Made by ``start_process``."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        tree: ProcessTree,
        pipe: int,
        capture: OutputCapture,
        *,
        argv: tuple[str, ...],
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float | None,
    ) -> None:
        self._popen = popen
        self._tree = tree
        self._pipe = pipe
        self._capture = capture
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._timeout_s = timeout_s
        self._started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._end_of_output = asyncio.Event()
        self._kill_wanted = asyncio.Event()
        self._last_output = self._started
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._backlog_changed = asyncio.Event()
        self._consumed = False
        self._over = False
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._on_readable)
        _live.add(self)
        self._task = self._loop.create_task(self._supervise())

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    @property
    def pid(self) -> int:
        """The leader's process id on the host."""
        return self._popen.pid

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._over

    async def output(self) -> AsyncIterator[bytes]:
        """Chunks as they arrive; a consumer more than 1 MiB behind loses the oldest ones."""
        if self._consumed:
            raise RuntimeError("the output of a command can be consumed only once")
        self._consumed = True
        while True:
            while self._backlog:
                chunk = self._backlog.popleft()
                self._backlog_bytes -= len(chunk)
                yield chunk
            if self._over:
                return
            self._backlog_changed.clear()
            await self._backlog_changed.wait()

    async def wait(self) -> ExecResult:
        """Waits for the end; cancelling the waiter ends the command's whole tree first."""
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.kill()
            raise

    async def kill(self) -> None:
        """SIGTERM, then SIGKILL, to the whole tree; returns when it is gone; idempotent."""
        self.end()
        await asyncio.wait([self._task])

    def end(self) -> None:
        """``kill`` without waiting for it."""
        self._kill_wanted.set()

    def kill_now(self) -> None:
        """SIGKILL to the whole tree without awaiting (signal handlers, exit paths)."""
        if not self._over:
            self._kill_wanted.set()
            self._tree.kill_now()

    async def _supervise(self) -> ExecResult:
        timed_out = killed = False
        notes: list[str] = []
        try:
            ended = asyncio.ensure_future(when_ended(self._popen.pid))
            wanted = asyncio.ensure_future(self._kill_wanted.wait())
            try:
                done, _ = await asyncio.wait(
                    (ended, wanted), timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
                if ended in done:
                    ended.result()
                else:
                    killed = wanted in done
                    timed_out = not killed
                    await self._tree.end(TERM_GRACE_S)
                    await ended
            finally:
                ended.cancel()
                wanted.cancel()
            duration = time.monotonic() - self._started
            await self._drain()
            left = await self._tree.end(TERM_GRACE_S)
            if left and not (timed_out or killed):
                notes.append(f"{left} background process{'es' if left > 1 else ''} left running, ended")
            self._read_rest()
        except BaseException:
            # The loop is going down or something broke: nothing may outlive this handle.
            self._tree.kill_now()
            self._read_rest()
            self._finish()
            raise
        self._finish()
        captured = self._capture.finish()
        exit_code = exit_status(self._popen.returncode)
        if timed_out:
            notes.insert(0, f"ended at the time limit of {self._timeout_s:g} s")
        elif killed:
            notes.insert(0, "ended on request")
        elif exit_code != 0:
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
            note="; ".join(notes),
        )

    async def _drain(self) -> None:
        """After the leader's end: what is still in the pipe, and a short while for its children to finish."""
        deadline = time.monotonic() + _DRAIN_LIMIT_S
        self._last_output = time.monotonic()
        while not self._end_of_output.is_set():
            patience = min(self._last_output + _DRAIN_QUIET_S, deadline) - time.monotonic()
            if patience <= 0:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end_of_output.wait(), patience)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._pipe, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            self._loop.remove_reader(self._pipe)
            self._end_of_output.set()
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        self._last_output = time.monotonic()
        self._capture.feed(data)
        self._backlog.append(data)
        self._backlog_bytes += len(data)
        while self._backlog_bytes > _BACKLOG_BYTES and len(self._backlog) > 1:
            self._backlog_bytes -= len(self._backlog.popleft())
        self._backlog_changed.set()

    def _read_rest(self) -> None:
        """Everything the pipe still holds now that no writer of ours is left (bounded by the pipe's size)."""
        for _ in range(64):
            if self._end_of_output.is_set():
                return
            try:
                data = os.read(self._pipe, _CHUNK)
            except (BlockingIOError, InterruptedError):
                return
            if not data:
                return
            self._take(data)

    def _finish(self) -> None:
        if self._over:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        self._popen.wait()
        self._tree.close()
        self._capture.finish()
        self._over = True
        self._backlog_changed.set()
        _live.discard(self)


def end_all_processes() -> None:
    """SIGKILL, at once, to the trees of all commands still running (SIGTERM handlers, exit paths)."""
    for handle in list(_live):
        handle.kill_now()
    end_all_trees()


async def start_process(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    log_path: Path,
    timeout_s: float | None = None,
    head_bytes: int = 32768,
    tail_bytes: int = 32768,
    log_cap_bytes: int = 256 << 20,
    user: int | None = None,
    group: int | None = None,
    rlimits: Mapping[int, tuple[int, int]] | None = None,
    shown_argv: Sequence[str] | None = None,
    shown_cwd: str | None = None,
) -> ProcessHandle:
    """Starts a command with exactly ``env`` (see ``base_environment``) and an empty stdin.

    Args:
        log_path: where the complete output goes (first ``log_cap_bytes`` of it).
        timeout_s: seconds after which the whole tree is ended.
        user, group: numeric ids to run as (needs root).
        rlimits: RLIMIT_* number -> (soft, hard).
        shown_argv, shown_cwd: what the result reports instead (wrappers such as bubblewrap).

    Raises:
        ToolError: the program or the working directory cannot be used.
    """
    read_end, write_end = os.pipe()
    try:
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, 1 << 20)
        popen, tree = spawn(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            user=user,
            group=group,
            rlimits=rlimits,
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    capture = OutputCapture(
        log_path, head_bytes=head_bytes, tail_bytes=tail_bytes, log_cap_bytes=log_cap_bytes
    )
    return ProcessHandle(
        popen,
        tree,
        read_end,
        capture,
        argv=tuple(shown_argv if shown_argv is not None else argv),
        cwd=shown_cwd if shown_cwd is not None else str(cwd),
        env=env,
        timeout_s=timeout_s,
    )


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    log_path: Path,
    timeout_s: float | None = None,
    head_bytes: int = 32768,
    tail_bytes: int = 32768,
    log_cap_bytes: int = 256 << 20,
    user: int | None = None,
    group: int | None = None,
    rlimits: Mapping[int, tuple[int, int]] | None = None,
    shown_argv: Sequence[str] | None = None,
    shown_cwd: str | None = None,
) -> ExecResult:
    """``start_process`` and ``wait`` in one; cancelling it ends the command's tree."""
    handle = await start_process(
        argv,
        cwd=cwd,
        env=env,
        log_path=log_path,
        timeout_s=timeout_s,
        head_bytes=head_bytes,
        tail_bytes=tail_bytes,
        log_cap_bytes=log_cap_bytes,
        user=user,
        group=group,
        rlimits=rlimits,
        shown_argv=shown_argv,
        shown_cwd=shown_cwd,
    )
    return await handle.wait()
