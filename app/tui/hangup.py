"""Notices that the terminal is gone, also where no signal says so, and sees that the program ends then."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable

_PATIENCE_S = 25.0
"""For an orderly end. What writes to a terminal that is gone may wait for ever."""


class HangupWatch(threading.Thread):
    """Sleeps until standard input, a terminal, hangs up.

    Args:
        gone: called then, on this thread.
        last: called when the process is still there after a while; does not return.
    """

    def __init__(self, gone: Callable[[], None], last: Callable[[], None]) -> None:
        super().__init__(name="whimbrel-hangup", daemon=True)
        self._gone, self._last = gone, last

    @staticmethod
    def possible() -> bool:
        """Whether standard input is a terminal whose end can be waited for."""
        return sys.platform == "linux" and os.isatty(0)

    def run(self) -> None:
        watch = select.poll()
        watch.register(0, 0)  # nothing but its end, which is always told
        while not any(happened & (select.POLLHUP | select.POLLERR) for _, happened in watch.poll()):
            pass
        # What is still written must go somewhere: a write that fails ends the thread that others wait for.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        self._gone()
        time.sleep(_PATIENCE_S)
        self._last()
