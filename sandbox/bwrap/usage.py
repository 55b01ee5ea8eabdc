"""The disk watchdog: bind mounts have no quota, so growth is measured while commands run.

A full measurement (``du``, which neither follows links nor trips over very deep trees)
happens when the file system's free space has dropped noticeably since the last one, and
every few seconds anyway. Files that were deleted but are still held open count too: they
are found through the open descriptors of the sandbox's processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ToolError
from ..base.process import base_environment, run_process

_POLL_S = 0.1
_REGULAR_S = 5.0
_NOTICEABLE_BYTES = 32 << 20
_SLACK_BYTES = 8 << 20


@dataclass(frozen=True)
class Quota:
    """A group of directories that together may grow by ``limit_bytes``."""

    name: str
    directories: tuple[Path, ...]
    limit_bytes: int


@dataclass
class _State:
    quota: Quota
    baseline: int = 0
    excess: int = 0
    """What an earlier command left beyond the limit: a later one may clean up, but not add to it."""


class DiskWatch:
    """Measures quotas; ``watch`` runs beside a command and reports the first one exceeded."""

    def __init__(self, quotas: Sequence[Quota], log_path: Path) -> None:
        self._states = [_State(quota) for quota in quotas]
        self._log_path = log_path

    async def set_baseline(self) -> None:
        """Records the present sizes; growth is counted from here."""
        for state in self._states:
            state.baseline = await self._used(state.quota)

    async def watch(self, pids: Callable[[], Iterable[int]]) -> str:
        """Returns, once a quota is exceeded, the line that says so. Cancel it when nothing runs."""
        for state in self._states:
            if state.excess:
                state.excess = max(0, await self._used(state.quota) - self._allowed(state) + _SLACK_BYTES)
        free = self._free()
        measured = time.monotonic()
        first = True
        while True:
            await asyncio.sleep(_POLL_S)
            now = self._free()
            dropped = any(before - after > _NOTICEABLE_BYTES for before, after in zip(free, now, strict=True))
            if not first and not dropped and time.monotonic() - measured < _REGULAR_S:
                continue
            first = False
            free = now
            held = await asyncio.to_thread(held_bytes, list(pids()), self._devices())
            for state in self._states:
                used = await self._used(state.quota) + held
                if used > self._allowed(state) + state.excess:
                    state.excess = used - self._allowed(state)
                    limit = state.quota.limit_bytes / (1 << 20)
                    return f"the {state.quota.name} grew beyond its limit of {limit:.0f} MiB: command ended"
            measured = time.monotonic()

    @staticmethod
    def _allowed(state: _State) -> int:
        return state.baseline + state.quota.limit_bytes

    def _devices(self) -> set[int]:
        return {place.stat().st_dev for state in self._states for place in state.quota.directories}

    def _free(self) -> list[int]:
        places = (state.quota.directories[0] for state in self._states)
        found: list[int] = []
        for place in places:
            try:
                answer = os.statvfs(place)
            except OSError:
                found.append(0)
            else:
                found.append(answer.f_bavail * answer.f_frsize)
        return found

    async def _used(self, quota: Quota) -> int:
        result = await run_process(
            ["du", "-skx", "--", *(str(directory) for directory in quota.directories)],
            cwd="/",
            env=base_environment({"LC_ALL": "C"}),
            log_path=self._log_path,
        )
        # Directories the project made unreadable are reported on the side; the sums still come.
        sizes = [line.split(b"\t")[0] for line in (result.head + result.tail).splitlines() if b"\t" in line]
        total = sum(int(size) for size in sizes if size.isdigit())
        if not sizes:
            raise ToolError(
                f"the size of {quota.directories[0]} cannot be measured: {result.text().strip()[:200]}"
            )
        return total * 1024


def held_bytes(pids: Iterable[int], devices: Collection[int]) -> int:
    """Bytes on the given devices of deleted files that the processes hold open, each file once."""
    seen: dict[tuple[int, int], int] = {}
    for pid in pids:
        # Processes come and go while we look.
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found = entry.stat()
                    gone = stat.S_ISREG(found.st_mode) and found.st_nlink == 0
                    if gone and found.st_dev in devices:
                        seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())
