"""Bounds the growth of the workspace: bind mounts have no quota of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

_PERIOD_S = 0.5
_FULL_EVERY_S = 15.0
_SLACK_BYTES = 16 << 20


def disk_usage(root: Path) -> int:
    """Bytes allocated below ``root`` (blocking); what vanishes meanwhile is not counted."""
    total = 0
    pending = [str(root)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                    except OSError:
                        continue
        except OSError:
            continue
    return total


class DiskWatch:
    """Watches while commands run, and calls ``over`` with one line when the limit is passed.

    Walking a large tree twice a second would cost more than many tests, so the file
    system's free space is asked first; the tree is measured only when enough of it went.

    A workspace already over the limit may still be cleaned up: a command is ended only
    when it adds to the excess.
    """

    def __init__(self, root: Path, limit_bytes: int, over: Callable[[str], Awaitable[None]]) -> None:
        self._root = root
        self._limit = limit_bytes
        self._over = over
        self._start_bytes = 0
        self._measured = 0
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Takes the present size as the start."""
        self._start_bytes = self._measured = await asyncio.to_thread(disk_usage, self._root)

    def resume(self) -> None:
        """A command runs now: watch."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def pause(self) -> None:
        """No command runs any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        allowed = max(self._limit, self._measured - self._start_bytes + _SLACK_BYTES)
        free = self._free()
        age = 0.0
        while True:
            await asyncio.sleep(_PERIOD_S)
            age += _PERIOD_S
            room = allowed - (self._measured - self._start_bytes)
            if free - self._free() < room // 4 and age < _FULL_EVERY_S:
                continue
            free, age = self._free(), 0.0
            self._measured = await asyncio.to_thread(disk_usage, self._root)
            grown = self._measured - self._start_bytes
            if grown <= allowed:
                # What was cleaned up does not come back for free.
                allowed = max(self._limit, min(allowed, grown + _SLACK_BYTES))
                continue
            await self._over(
                f"ended: the workspace grew by {grown >> 20} MiB, the disk limit is {self._limit >> 20} MiB"
            )
            return

    def _free(self) -> int:
        found = os.statvfs(self._root)
        return found.f_bavail * found.f_frsize
