"""Who may run now, who waits, and who is sent away: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from .backend import Busy


class Draining(Exception):
    """The server takes no new requests: it is about to end."""


class Admission:
    """Slots of running requests and a bounded queue before them."""

    def __init__(self, running: int, queue: int) -> None:
        """``running`` requests at a time, ``queue`` of them waiting."""
        self._most_running = running
        self._most_waiting = queue
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._enders: set[Callable[[], None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.running = 0
        self.draining = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return self.running >= self._most_running and self.waiting >= self._most_waiting

    def check(self) -> None:
        """Raises Draining or Busy: a new request would be sent away."""
        if self.draining:
            raise Draining
        if self.full:
            raise Busy(
                f"{self.running} requests are running and {self.waiting} waiting: no more are taken now",
                retry_after_s=1.0 + self.waiting / max(1, self._most_running),
            )

    @asynccontextmanager
    async def admitted(self, end: Callable[[], None]) -> AsyncGenerator[None]:
        """Holds a place in the queue, then a slot.

        Args:
            end: ends the request from outside, see ``end_all``.

        Raises:
            Draining, Busy: see ``check``.
        """
        self.check()
        self._enders.add(end)
        self._empty.clear()
        try:
            await self._slot()
            try:
                yield
            finally:
                self._free()
        finally:
            self._enders.discard(end)
            if not self._enders:
                self._empty.set()

    async def drain(self, seconds: float) -> bool:
        """Takes nothing new and waits for what is there; False when time is up first."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def end_all(self) -> None:
        """Ends every request that runs or waits."""
        for end in list(self._enders):
            end()

    async def _slot(self) -> None:
        if self.running < self._most_running:
            self.running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free()  # it was this one's turn in the very moment it gave up
            else:
                self._waiting.remove(turn)
            raise

    def _free(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                # The slot goes from hand to hand: nobody who comes now gets in between.
                turn.set_result(None)
                return
        self.running -= 1
