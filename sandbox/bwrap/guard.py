"""Keeps the disk watchdog running exactly while something runs, and ends what exceeds a quota."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ..base.errors import WhimbrelError
from .usage import DiskWatch


class DiskGuard:
    """Switched on with every command and off after the last one.

    Args:
        watch: measures and says which quota was exceeded.
        pids: host pids of the processes inside, for files that are deleted but held open.
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
