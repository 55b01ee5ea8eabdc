"""What bubblewrap reports about one start: was it set up, which pid is its inside, how did it end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import SandboxDied

PLAN_SUFFIX = ".plan"
_GONE_PATIENCE_S = 10.0


@dataclass(frozen=True)
class BwrapStatus:
    """The status file's content so far."""

    child_pid: int | None
    """Host pid of the first process of the inner pid namespace."""
    exit_code: int | None
    """Set only when the command was really started and has ended."""


def read_status(path: Path) -> BwrapStatus:
    """Reads the file bubblewrap appends JSON documents to; missing means nothing was reported."""
    found: dict[str, int] = {}
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        text = ""
    for line in text.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue  # a line still being written
        found.update({key: value for key, value in document.items() if isinstance(value, int)})
    return BwrapStatus(found.get("child-pid"), found.get("exit-code"))


def forget(path: Path) -> None:
    """Removes the status file, and the plan when its launcher was killed before it did."""
    path.unlink(missing_ok=True)
    path.with_suffix(PLAN_SUFFIX).unlink(missing_ok=True)


async def end_namespace(pid: int) -> None:
    """Ends the pid namespace whose first process is ``pid``; the kernel ends all others in it first.

    Usually it is on its way out already. Not always: the process that bubblewrap leaves outside
    may be killed before the one inside has asked to die with it.

    Raises:
        SandboxDied: it is still there after ten seconds.
    """
    deadline = time.monotonic() + _GONE_PATIENCE_S
    own = _namespace(os.getpid())
    while alive(pid):
        # A pid that has been given to a process of our own namespace meanwhile is not it.
        inside = _namespace(pid)
        if inside in (-1, own):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SandboxDied(f"the processes of a command cannot be ended (first process {pid})")
        await asyncio.sleep(0.005)
    _collect(pid)


def _collect(pid: int) -> None:
    """Reaps the process when it was left to us because its parent was killed first; nobody else would."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rfind(b")") + 2 :][:1] not in (b"Z", b"X")


def namespace_pids(child_pid: int) -> list[int]:
    """Host pids of all processes in the pid namespace whose first process is ``child_pid``."""
    wanted = _namespace(child_pid)
    if wanted == -1:
        return []
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _namespace(pid) == wanted]


def _namespace(pid: int) -> int:
    """A number naming the process's pid namespace; -1 when it has ended or is not ours to look at."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return -1


def uid_is_mapped(uid: int) -> bool:
    """Whether this process's user namespace knows the user id (rootless containers know few)."""
    for line in Path("/proc/self/uid_map").read_text("ascii").splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= uid < first + count:
            return True
    return False
