"""The disk watchdog: bind mounts have no quota, so growth is measured while commands run.

A full measurement (``du``, which neither follows links nor trips over very deep trees)
happens when the file system's free space or its free inodes have dropped noticeably since
the last one, and every few seconds anyway. Every file counts for at least a block of
4 KiB: a million empty ones use up a disk's inodes. Files that were deleted but are still
held open or mapped count too. What can be seen by none of these ways (descriptors on
their way through a socket, directories that even we may not enter) is caught by a floor:
nothing runs on while the disk itself is about to be full.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .base.errors import ToolError, WhimbrelError
from .base.process import base_environment, run_process

_POLL_S = 0.1
_REGULAR_S = 5.0
_NOTICEABLE_BYTES = 32 << 20
_NOTICEABLE_INODES = 8192
_SLACK_BYTES = 8 << 20
_BYTES_PER_FILE = 4096
_FLOOR_BYTES = 512 << 20
_FLOOR_INODES = 50_000
_DELETED_MAPPING = re.compile(rb"^([0-9a-f]+-[0-9a-f]+) .* \(deleted\)$", re.MULTILINE)


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


@dataclass(frozen=True)
class _Room:
    """What a file system has left; ``inodes`` is None where it makes them as needed."""

    free_bytes: int
    inodes: int | None

    def dropped_noticeably(self, now: _Room) -> bool:
        if self.free_bytes - now.free_bytes > _NOTICEABLE_BYTES:
            return True
        if self.inodes is None or now.inodes is None:
            return False
        return self.inodes - now.inodes > _NOTICEABLE_INODES

    def nearly_full(self, now: _Room) -> str:
        """One line when ``now`` is below the floor for what there was at the start, or empty."""
        if now.free_bytes < min(_FLOOR_BYTES, self.free_bytes // 4):
            return f"the disk has only {now.free_bytes >> 20} MiB left: command ended"
        if self.inodes is None or now.inodes is None:
            return ""
        if now.inodes < min(_FLOOR_INODES, self.inodes // 4):
            return f"the disk has room for only {now.inodes} more files: command ended"
        return ""


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
        started = room = self._rooms()
        measured = time.monotonic()
        first = True
        while True:
            await asyncio.sleep(_POLL_S)
            now = self._rooms()
            for before, after in zip(started, now, strict=True):
                if full := before.nearly_full(after):
                    return full
            dropped = any(before.dropped_noticeably(after) for before, after in zip(room, now, strict=True))
            if not first and not dropped and time.monotonic() - measured < _REGULAR_S:
                continue
            first = False
            room = now
            held = await asyncio.to_thread(lambda: held_bytes(list(pids()), self._devices()))
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
        found: set[int] = set()
        for state in self._states:
            for place in state.quota.directories:
                with contextlib.suppress(OSError):
                    found.add(place.stat().st_dev)
        return found

    def _rooms(self) -> list[_Room]:
        found: list[_Room] = []
        for state in self._states:
            try:
                answer = os.statvfs(state.quota.directories[0])
            except OSError:
                found.append(_Room(0, None))
            else:
                inodes = answer.f_favail if answer.f_files else None
                found.append(_Room(answer.f_bavail * answer.f_frsize, inodes))
        return found

    async def _used(self, quota: Quota) -> int:
        size = await self._du(quota, "-skx")
        if size is None:
            raise ToolError(f"the size of {quota.directories[0]} cannot be measured: du does not work")
        # A du that cannot count entries (busybox) leaves the size alone to decide.
        entries = await self._du(quota, "-sx", "--inodes") or 0
        return max(size * 1024, entries * _BYTES_PER_FILE)

    async def _du(self, quota: Quota, *options: str) -> int | None:
        result = await run_process(
            ["du", *options, "--", *(str(directory) for directory in quota.directories)],
            cwd="/",
            env=base_environment({"LC_ALL": "C"}),
            log_path=self._log_path,
        )
        # Directories the project made unreadable are reported on the side; the sums still come.
        sums = [line.split(b"\t")[0] for line in (result.head + result.tail).splitlines() if b"\t" in line]
        return sum(int(word) for word in sums if word.isdigit()) if sums else None


class DiskGuard:
    """Keeps the watch running exactly while something runs, and ends what exceeds a quota.

    Switched on with every command and off after the last one.

    Args:
        watch: measures and says which quota was exceeded.
        pids: host pids of the processes inside, for files that are deleted but held open; called
            in a thread.
        end: ends everything that runs, for the reason given; returns whether something still runs.
    """

    def __init__(
        self,
        watch: DiskWatch,
        pids: Callable[[], Iterable[int]],
        end: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._watch = watch
        self._pids = pids
        self._end = end
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self.failure = ""
        """Why disk use is not watched any more, or empty."""

    def on(self) -> None:
        """Something runs now."""
        if not self.failure and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._keep_watch())

    def off(self) -> None:
        """Nothing runs any more. The guard that ends the last command stops by itself afterwards."""
        if self._task is not None and not self._ending:
            self._task.cancel()
            self._task = None

    async def _keep_watch(self) -> None:
        while True:
            try:
                reason = await self._watch.watch(self._pids)
            except (OSError, WhimbrelError) as error:
                self.failure = str(error)
                return
            self._ending = True
            try:
                more = await self._end(reason)
            finally:
                self._ending = False
            if not more:
                return


def held_bytes(pids: Iterable[int], devices: Collection[int]) -> int:
    """Bytes on the given devices of deleted files that the processes hold, each file once."""
    seen: dict[tuple[int, int], int] = {}
    for pid in pids:
        # Processes come and go while we look.
        with contextlib.suppress(OSError):
            for found in _held_files(pid):
                gone = stat.S_ISREG(found.st_mode) and found.st_nlink == 0
                if gone and found.st_dev in devices:
                    seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


def _held_files(pid: int) -> Generator[os.stat_result]:
    """Files one process has open, and the deleted ones it has mapped (these only root may look at)."""
    place = Path(f"/proc/{pid}")
    for entry in (place / "fd").iterdir():
        with contextlib.suppress(OSError):
            yield entry.stat()
    for match in _DELETED_MAPPING.finditer((place / "maps").read_bytes()):
        with contextlib.suppress(OSError):
            # The name has no leading zeros, unlike the table's short addresses.
            first, _, last = match[1].decode().partition("-")
            yield (place / "map_files" / f"{int(first, 16):x}-{int(last, 16):x}").stat()
