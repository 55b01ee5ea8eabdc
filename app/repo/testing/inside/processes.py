"""What the fork servers share: framed messages, limits of a forked child, its end."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import struct
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

_server: List[int] = []
"""Process id of the server, once it has taken its stream."""


try:
    # Loaded once: a forked child has no time for it.
    libc: Any = ctypes.CDLL(None)
except OSError:
    libc = None


class Wire:
    """Length-prefixed JSON (4 bytes, big endian) on two descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target

    def receive(self) -> Optional[Dict[str, Any]]:
        """The next message, or None at the end of the stream."""
        head = self._exactly(4)
        if head is None:
            return None
        body = self._exactly(struct.unpack(">I", head)[0])
        return None if body is None else json.loads(body.decode("utf-8"))

    def send(self, message: Dict[str, Any]) -> None:
        body = json.dumps(message).encode("ascii")
        data = memoryview(struct.pack(">I", len(body)) + body)
        while data:
            data = data[os.write(self.target, data) :]

    def _exactly(self, count: int) -> Optional[bytes]:
        parts: List[bytes] = []
        while count:
            part = os.read(self.source, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self.source)
        os.close(self.target)


def take_stream() -> Wire:
    """The stream on stdin and stdout, moved out of the way: nothing that imports or prints may touch it."""
    _server.append(os.getpid())
    wire = Wire(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return wire


def thread_count() -> int:
    """Threads of this process, those of C libraries included where the system tells."""
    try:
        return max(threading.active_count(), len(os.listdir("/proc/self/task")))
    except OSError:
        # No /proc (macOS): Python's own threads are what can be counted.
        return threading.active_count()


def begin_child(log_path: str, cpu_s: float, memory_bytes: int) -> None:
    """First steps of a forked child: own session, ends with its parent, limits, output to ``log_path``."""
    os.setsid()
    _die_with_parent()
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, max(1, int(cpu_s)))
    if memory_bytes:
        _limit(resource.RLIMIT_AS, int(memory_bytes))


def _die_with_parent() -> None:
    # Elsewhere than on Linux the sandbox's own clean-up has to find the child.
    with contextlib.suppress(OSError, AttributeError):
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if _server and os.getppid() != _server[-1]:
            # It died before the request.
            os._exit(70)


def _limit(kind: int, value: int) -> None:
    _soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, hard))


def kill_group(pid: int) -> None:
    """Ends a child that has not been waited for, and everything in its process group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            # Already gone, or the child had not yet made its own group.
            continue


def end_child(pid: int, patience_s: float) -> int:
    """Waits a moment for a child, ends it and its process group; returns its status."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until and hasattr(os, "waitid"):
        # It is not reaped yet: as long as it is there, its number is nobody else's.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.0005)
    kill_group(pid)
    return os.waitpid(pid, 0)[1]


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_orphans(children: List[int]) -> None:
    """Ends children of this process that are none of ``children``, and were there before all of them."""
    first = min((row[1] for row in map(_parent_and_start, children) if row is not None), default=None)
    for pid in _children_of(os.getpid()):
        row = _parent_and_start(pid)
        if pid in children or row is None or (first is not None and row[1] >= first):
            continue
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children_of(parent: int) -> List[int]:
    try:
        with open("/proc/self/task/%d/children" % parent, "rb") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        # No such file in this kernel: the sandbox ends what is left.
        return []


def _parent_and_start(pid: int) -> Optional[Tuple[int, int]]:
    """Parent and start time in clock ticks."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
