"""What bubblewrap reports about one start: was it set up, which pid is its inside, how did it end."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path

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


async def wait_gone(pid: int) -> bool:
    """Waits until the first process of a pid namespace has ended: the kernel ends all others before it.

    Returns False when it is still there after ten seconds.
    """
    deadline = time.monotonic() + _GONE_PATIENCE_S
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.005)
    return True


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rfind(b")") + 2 :][:1] not in (b"Z", b"X")


def namespace_pids(child_pid: int) -> list[int]:
    """Host pids of all processes in the pid namespace whose first process is ``child_pid``."""

    def namespace(pid: int) -> int:
        try:
            return Path(f"/proc/{pid}/ns/pid").stat().st_ino
        except OSError:
            return -1  # ended meanwhile, or not ours to look at

    wanted = namespace(child_pid)
    if wanted == -1:
        return []
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and namespace(int(entry.name)) == wanted
    ]


def uid_is_mapped(uid: int) -> bool:
    """Whether this process's user namespace knows the user id (rootless containers know few)."""
    for line in Path("/proc/self/uid_map").read_text("ascii").splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= uid < first + count:
            return True
    return False
