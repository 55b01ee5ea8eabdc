"""Commands that run on while the model does other things, and what a running one prints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ...sandbox.base.results import ExecResult, RunHandle
from .base import Progress

__all__ = ["Job"]

OUTPUT = "output"
"""The phase of progress that is the last line a command has printed."""
_UNREAD_BYTES = 48 << 10
_TELL_EVERY_S = 0.3
_TOLD_BYTES = 4096
_LINE_CHARACTERS = 400


class Job:
    """One background command: collects its output until someone asks for it."""

    def __init__(self, name: str, command: str, tree: str, handle: RunHandle) -> None:
        self.name = name
        self.command = command
        self.tree = tree
        """Snapshot of the workspace when the command started."""
        self.started = time.monotonic()
        self.recorded: tuple[int, str | None] | None = None
        """Ledger row and artifact once the end has been recorded."""
        self._handle = handle
        self._unread = bytearray()
        self._dropped = 0
        self._collector = asyncio.ensure_future(self._collect())
        self._end = asyncio.ensure_future(handle.wait())
        for task in (self._collector, self._end):
            task.add_done_callback(_seen)

    @property
    def argv(self) -> tuple[str, ...]:
        return self._handle.argv

    async def _collect(self) -> None:
        async for chunk in self._handle.output():
            self._unread += chunk
            over = len(self._unread) - _UNREAD_BYTES
            if over > 0:
                del self._unread[:over]
                self._dropped += over

    def take_output(self, clean: Callable[[bytes], str]) -> str:
        """What was printed since the last call, with the true number of bytes left out."""
        data, dropped = bytes(self._unread), self._dropped
        self._unread.clear()
        self._dropped = 0
        text = clean(data)
        return f"[... {dropped} earlier bytes not shown ...]\n{text}" if dropped else text

    async def result(self, within_s: float) -> ExecResult | None:
        """How it ended, or None when it is still running after ``within_s`` seconds."""
        done, _ = await asyncio.wait((self._end,), timeout=within_s)
        if not done:
            return None
        await asyncio.wait((self._collector,), timeout=1)
        return self._end.result()

    async def kill(self) -> ExecResult:
        """Ends its whole process tree."""
        await self._handle.kill()
        return await asyncio.shield(self._end)


async def tell_output(
    handle: RunHandle, progress: Callable[[Progress], None], clean: Callable[[bytes], str]
) -> None:
    """Passes on the last line a command has printed, a few times a second, until its output ends."""
    tail, told = b"", 0.0
    async for chunk in handle.output():
        tail = (tail + chunk)[-_TOLD_BYTES:]
        now = time.monotonic()
        if now - told < _TELL_EVERY_S:
            continue
        lines = clean(tail).split("\n")
        line = next((each.strip() for each in reversed(lines) if each.strip()), "")
        if line:
            told = now
            progress(Progress(OUTPUT, line[:_LINE_CHARACTERS]))


def _seen(task: asyncio.Future[Any]) -> None:
    # A sandbox that dies ends the run by the next command; a job nobody asks about again adds no noise.
    if not task.cancelled():
        task.exception()
