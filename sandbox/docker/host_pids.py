"""A container's processes as this machine's own process table shows them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

_PF_EXITING = 0x4
"""Kernel flag of a process on its way out (include/linux/sched.h)."""


@dataclass(frozen=True)
class InitProcess:
    """The first process of a container; its end is the end of all others inside."""

    container_id: str
    pid: int

    @classmethod
    def of(cls, container_id: str, pid: int) -> InitProcess | None:
        """None when ``pid`` is not visible here, or belongs to something else."""
        init = cls(container_id, pid)
        return init if pid > 0 and init._is_ours() else None

    def ending(self) -> bool:
        """Whether it has ended or has begun to: the kernel ends the other processes before it is gone."""
        if not self._is_ours():
            return True
        try:
            # The name in brackets may itself hold brackets and spaces.
            fields = Path(f"/proc/{self.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return True
        return fields[0] in "ZX" or bool(int(fields[6]) & _PF_EXITING)

    def _is_ours(self) -> bool:
        with contextlib.suppress(OSError):
            return self.container_id.encode("ascii") in Path(f"/proc/{self.pid}/cgroup").read_bytes()
        return False


def belongs_to(pid: int, uid: int) -> bool:
    """Whether the user ``uid`` owns the process and it still runs."""
    try:
        details = Path(f"/proc/{pid}").stat()
        # One that is ended already but not yet collected cannot be ended again.
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return details.st_uid == uid and state not in (b"Z", b"X")


def pids_of(container_id: str) -> list[int]:
    """Host pids of a container's processes (blocking); none where the daemon lives on another machine."""
    wanted = container_id.encode("ascii")
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # Both versions of control groups have the id in the group's name.
            if wanted in (entry / "cgroup").read_bytes():
                found.append(int(entry.name))
    return found
