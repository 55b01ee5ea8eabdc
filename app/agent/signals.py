"""SIGINT, SIGTERM and SIGHUP end the current task in an orderly way: what runs is killed and recorded."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ...sandbox.base.errors import Cancelled, Terminated

_received: ContextVar[list[signal.Signals] | None] = ContextVar("received_signals", default=None)


@dataclass
class Interrupts:
    """The signals of one block."""

    received: list[signal.Signals] = field(default_factory=list[signal.Signals])
    held: bool = False

    def hold(self) -> None:
        """From here on signals are noted only: what is left is short and must not be torn."""
        self.held = True


@asynccontextmanager
async def interruptible() -> AsyncGenerator[Interrupts]:
    """Turns the signals into cancellation of the block, and that into an error of the tree.

    SIGHUP is left alone where it is ignored (``nohup``).

    Raises:
        Cancelled: SIGINT ended the block.
        Terminated: SIGTERM or SIGHUP (a closed terminal) ended the block.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    interrupts = Interrupts()
    received = interrupts.received
    token = _received.set(received)
    installed: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        # Once: a second Ctrl-C must not break into the clean-up that the first one started.
        if len(received) == 1 and task is not None and not interrupts.held:
            task.cancel()

    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    for number in wanted:
        try:
            loop.add_signal_handler(number, on_signal, number)
        except (ValueError, RuntimeError, NotImplementedError):
            continue  # not the main thread: its owner handles signals and cancels us
        installed.append(number)
    try:
        yield interrupts
    except asyncio.CancelledError as error:
        if not received:
            raise
        if task is not None:
            task.uncancel()
        raise _error(received[0]) from error
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
        _received.reset(token)


def cancellation() -> Cancelled | Terminated:
    """What a cancellation seen right now means: SIGTERM, SIGINT, or the person's own cancel."""
    received = _received.get()
    return _error(received[0]) if received else Cancelled("the run was cancelled")


def _error(number: signal.Signals) -> Cancelled | Terminated:
    if number is signal.SIGTERM:
        return Terminated("the run was told to end (SIGTERM)")
    if number is signal.SIGHUP:
        return Terminated("the terminal was closed (SIGHUP)", hint="nohup outlives a terminal")
    return Cancelled("the run was interrupted")
