"""The per-test time limit: an alarm that raises, and a C-level watchdog that ends the process.

The alarm gives the test a normal failure with a traceback. Where it cannot be
delivered (a loop in C, blocked signals, code that swallows every exception) the
watchdog of ``faulthandler`` writes the stack to ``dump_path`` and exits; it needs
neither the interpreter lock nor signals.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from typing import Any, Callable


class TestTimeLimit(BaseException):
    """The test took too long. Not an ``Exception``, so that ``except Exception`` does not swallow it."""

    __test__ = False


_LEAST_S = 6.0
_TIMES_THE_SLOWEST = 20.0
"""What a test gets at least where others hung: so many seconds, and this often what the slowest took."""


class TestClock:
    """Arms and disarms the limit around the phases of one test.

    Where one fault makes many tests hang, waiting the whole limit for each would use up the run:
    after every test that hung, the next ones get half, down to what is plenty for the others.

    Args:
        seconds: limit of one test, all phases together; 0 or less switches it off.
        dump_path: where the watchdog writes the stack.
    """

    __test__ = False

    def __init__(self, seconds: float, dump_path: str) -> None:
        self.seconds = seconds
        self.limit = seconds
        """Of the present test."""
        self._hangs = 0
        self._slowest = 0.0
        self._begun = -1.0
        self._rang = False
        self.grace = max(1.0, min(5.0, seconds * 0.2))
        self._dump = os.open(dump_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._owner = os.getpid()
        self._deadline = 0.0
        self._previous: Any = None
        self._armed = False
        self._now: Callable[[], float] = time.monotonic
        self._timer: Any = getattr(signal, "setitimer", None)

    def catch_crashes(self) -> None:
        """The stack of a fatal signal goes to the same file."""
        faulthandler.enable(file=self._dump)

    def new_test(self) -> None:
        """Starts the budget of the next test."""
        now = self._now()
        if self._rang:
            self._hangs += 1
        elif self._begun >= 0:
            self._slowest = max(self._slowest, now - self._begun)
        if self._hangs:
            plenty = max(_LEAST_S, _TIMES_THE_SLOWEST * self._slowest)
            self.limit = min(self.seconds, max(plenty, self.seconds / 2**self._hangs))
        self._rang = False
        self._begun = now
        self._deadline = now + self.limit

    def arm(self, *, at_least: float = 0.05) -> None:
        """Counts the rest of the budget down from here (``at_least`` seconds for tear-down)."""
        if self.seconds <= 0 or os.getpid() != self._owner:
            return
        rest = max(self._deadline - self._now(), at_least)
        faulthandler.dump_traceback_later(rest + self.grace, exit=True, file=self._dump)
        if self._timer is not None and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGALRM, self._ring)
            self._timer(signal.ITIMER_REAL, rest, 1.0)
            self._armed = True

    def disarm(self) -> None:
        """Stops the countdown and gives the signal back."""
        # In a forked child the watchdog thread does not exist and cancelling would wait for it.
        if self.seconds <= 0 or os.getpid() != self._owner:
            return
        if self._armed:
            self._armed = False
            self._timer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous if self._previous is not None else signal.SIG_DFL)
        faulthandler.cancel_dump_traceback_later()

    def _ring(self, _signum: int, _frame: Any) -> None:
        if not self._armed:
            return
        self._rang = True
        raise TestTimeLimit("the test ran longer than %g seconds" % self.limit)
