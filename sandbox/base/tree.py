"""Finding and ending every process that a command has left behind, and only those.

A command is started as the leader of its own session. Its tree is everything that
(1) is in that session or process group, (2) descends from the leader by parent pid, or
(3) carries the command's marker in its initial environment: daemons that forked twice
and left the session. This process becomes a "child subreaper", so that such orphans are
re-parented to it and can be reaped.

Signals are sent through pid file descriptors after comparing start times, so that a
recycled pid never receives one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

MARKER = "WHIMBREL_PROCESS"
_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 60

_EXEC_PAUSES_S = (0.0005, 0.002)

_subreaper_pid: int | None = None
_live: weakref.WeakSet[ProcessTree] = weakref.WeakSet()


@dataclass(frozen=True)
class _Process:
    """A row of /proc: ``started`` is in clock ticks since boot and makes the pid unique."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int


def _read_process(pid: int) -> _Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command name stands in parentheses and may itself hold parentheses and spaces.
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return _Process(
        pid, fields[0].decode("ascii"), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19])
    )


def _all_processes() -> list[_Process]:
    try:
        names = [entry.name for entry in Path("/proc").iterdir()]
    except OSError:
        return []
    rows = (_read_process(int(name)) for name in names if name.isdigit())
    return [row for row in rows if row is not None]


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process (Linux; harmless elsewhere)."""
    global _subreaper_pid
    if _subreaper_pid == os.getpid() or not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _subreaper_pid = os.getpid()


def _send(process: _Process, number: int) -> None:
    """Signals exactly this process, not one that took over its pid."""
    try:
        if not hasattr(os, "pidfd_open"):
            now = _read_process(process.pid)
            if now is not None and now.started == process.started:
                os.kill(process.pid, number)
            return
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = _read_process(process.pid)
        if now is not None and now.started == process.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


class ProcessTree:
    """The processes of one command, found by ``marker`` alone until ``lead`` names the session leader.

    Keep the leader unreaped (a zombie) until ``end`` has returned: as long as it exists
    the kernel gives its process group number to nobody else.
    """

    def __init__(self, marker: str) -> None:
        self._popen: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._marker = f"{MARKER}={marker}".encode()
        self._known: dict[int, int] = {}
        # Before the command starts: a signal handler that ends everything must not miss it.
        _live.add(self)

    def lead(self, popen: subprocess.Popen[bytes]) -> None:
        """Names the session leader."""
        self._leader = popen.pid
        self._popen = popen

    @staticmethod
    def new_marker() -> str:
        return secrets.token_hex(12)

    def survivors(self) -> list[_Process]:
        """Living processes of the tree besides a leader that has already ended."""
        processes = _all_processes()
        children: dict[int, list[_Process]] = {}
        for process in processes:
            children.setdefault(process.parent, []).append(process)
        own = os.getpid()
        # A reaped leader's number may belong to a stranger by now.
        leader = self._leader if self._popen is not None and self._popen.returncode is None else 0
        found: dict[int, _Process] = {}
        queue: list[_Process] = []
        for process in processes:
            if process.pid == own:
                continue
            adopted = process.parent in (own, 1) and process.pid != leader
            if (
                (leader and leader in (process.pid, process.session, process.group))
                or self._known.get(process.pid) == process.started
                or (adopted and self._carries_marker(process.pid))
            ):
                queue.append(process)
        while queue:
            process = queue.pop()
            if process.pid not in found:
                found[process.pid] = process
                queue.extend(children.get(process.pid, ()))
        for process in found.values():
            self._known[process.pid] = process.started
        return [process for process in found.values() if process.state not in "ZX"]

    def _carries_marker(self, pid: int) -> bool:
        for pause in (*_EXEC_PAUSES_S, 0.0):
            try:
                environ = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                return False
            if environ:
                return self._marker in environ.split(b"\0")
            # In the middle of exec a process shows an empty environment for a moment.
            time.sleep(pause)
        return False

    def signal(self, number: int) -> list[_Process]:
        """Signals every process of the tree once and returns those that were alive."""
        if not sys.platform.startswith("linux"):
            self._signal_group(number)
            return []
        alive = self.survivors()
        # The group first and in one call: a process that forks meanwhile cannot slip through.
        self._signal_group(number)
        for process in alive:
            if process.group != self._leader:
                _send(process, number)
        return alive

    def _signal_group(self, number: int) -> None:
        if self._popen is not None and self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)

    def kill_now(self) -> None:
        """SIGKILL to the whole tree without awaiting anything (for signal handlers and exit paths)."""
        deadline = time.monotonic() + 2.0
        while self.signal(signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._reap_adopted()

    async def end(self, grace_s: float) -> int:
        """SIGTERM, up to ``grace_s`` seconds of patience, then SIGKILL until nothing is left.

        Returns how many processes were alive at the start.
        """
        alive = self.signal(signal.SIGTERM)
        count = len(alive)
        # A stopped process acts on SIGTERM only after it is continued.
        if any(process.state == "T" for process in alive):
            self.signal(signal.SIGCONT)
        if sys.platform.startswith("linux"):
            pause, deadline = 0.002, time.monotonic() + grace_s
            while alive and time.monotonic() < deadline:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.05)
                alive = self.survivors()
        else:
            await asyncio.sleep(min(grace_s, 0.2))
        for _ in range(_KILL_ROUNDS):
            if not self.signal(signal.SIGKILL):
                break
            await asyncio.sleep(0.01)
        self._reap_adopted()
        return count

    def close(self) -> None:
        """Says that the command is over and its leader reaped."""
        _live.discard(self)

    def _reap_adopted(self) -> None:
        """Collects orphans of this command that were re-parented here; others' children are left alone."""
        for pid, started in self._known.items():
            if pid == self._leader:
                continue
            row = _read_process(pid)
            if row is not None and row.started == started and row.parent == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def end_all_trees() -> None:
    """SIGKILL, at once, to everything started and not yet over."""
    for tree in list(_live):
        tree.kill_now()
