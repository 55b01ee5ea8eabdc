"""Noticing that a child has ended, without reaping it."""

from __future__ import annotations

import asyncio
import os


def exit_status(returncode: int) -> int:
    """The shell's convention: 128 + signal number for a process ended by a signal."""
    return 128 - returncode if returncode < 0 else returncode


async def when_ended(pid: int) -> None:
    """Returns once the child ``pid`` has ended; leaves it as a zombie so that its pid stays taken."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        await _poll(pid)
        return
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def notice() -> None:
        loop.remove_reader(descriptor)
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, notice)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


async def _poll(pid: int) -> None:
    pause = 0.002
    while not _has_ended(pid):
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.05)
