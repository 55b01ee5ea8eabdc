"""The scheduler in a thread of its own, and its face for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable

from ...sandbox.base.errors import ModelError
from ..kimi.protocol import Runner
from .line import Deliver, Line
from .metrics import Metrics
from .request import Closing, Ended, Item, Request
from .scheduler import Limits, Scheduler


class Handle:
    """A request that was handed in; ``cancel`` may be called from any thread, any number of times."""

    def __init__(self, cancel: Callable[[Handle], None]) -> None:
        self._cancel = cancel
        self.line: Line | None = None
        self.cancelled = False

    def cancel(self) -> None:
        self._cancel(self)


class Engine:
    """Answers requests made of token ids.

    The runner is used by one thread only, from the first request to ``close``.
    """

    def __init__(self, runner: Runner, limits: Limits | None = None) -> None:
        self.metrics = Metrics()
        self.limits = limits or Limits()
        self._runner = runner
        self._scheduler = Scheduler(runner, self.limits, self.metrics)
        self.window = self._scheduler.window
        """Tokens of prompt and answer: the model's, or what its memory has room for."""
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._accepts = True
        self._stopping = False
        self._open = 0
        """Requests handed in that have not ended."""
        self._failed = ""

    @property
    def trouble(self) -> str:
        """Why nothing can be answered any more, in one line; empty: it can."""
        return self._failed or getattr(self._runner, "trouble", "")

    def submit(self, request: Request, deliver: Deliver) -> Handle:
        """Hands a request in. ``deliver`` is called by the worker thread with every `Token`, and with `Ended`
        or an exception as the last item; it must be quick and must not raise.

        Raises:
            InvalidRequest: it can never be served.
            Closing: nothing is taken any more.
            QueueFull: delivered, not raised, where the queue is full.
        """
        request.check(self._runner.vocab_size, self.window)
        handle = Handle(self._cancel)

        def deliver_and_count(item: Item | BaseException) -> None:
            if not (isinstance(item, BaseException | Ended)):
                deliver(item)
                return
            with self._wake:
                self._open -= 1
                self._wake.notify_all()
            deliver(item)

        def add() -> None:
            try:
                handle.line = self._scheduler.add(request, deliver_and_count)
            except Exception as error:  # noqa: BLE001 - told to whom it concerns
                deliver_and_count(error)
                return
            if handle.cancelled:
                self._scheduler.cancel(handle.line)

        with self._wake:
            if not self._accepts:
                raise Closing(self.trouble or "the engine takes no more requests")
            self._open += 1
            self._inbox.append(add)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="whimbrel-engine", daemon=True)
                self._thread.start()
            self._wake.notify_all()
        return handle

    async def generate(self, request: Request) -> AsyncGenerator[Item]:
        """Yields the tokens of the answer and `Ended`. Leaving early cancels the request.

        Raises:
            InvalidRequest, QueueFull, Closing: see `submit`.
            ModelError: the request failed; others go on.
        """
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[Item | BaseException] = asyncio.Queue()

        def deliver(item: Item | BaseException) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has gone down meanwhile
                loop.call_soon_threadsafe(items.put_nowait, item)

        handle = self.submit(request, deliver)
        try:
            while True:
                item = await items.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
                if isinstance(item, Ended):
                    return
        finally:
            handle.cancel()

    async def drain(self) -> None:
        """Takes no more requests, and returns when those there are have ended."""
        with self._wake:
            self._accepts = False
        await asyncio.to_thread(self._idle)

    def close(self) -> None:
        """Ends everything at once; requests that still run get an exception. Closing twice is harmless."""
        with self._wake:
            self._accepts, self._stopping = False, True
            thread = self._thread
            self._wake.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _idle(self) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._open == 0 or self._stopping)

    def _cancel(self, handle: Handle) -> None:
        with self._wake:
            if handle.cancelled:
                return
            handle.cancelled = True
            # Under the lock, and in the worker's order: the line may not be there yet.
            self._inbox.append(lambda: self._scheduler.cancel(handle.line) if handle.line else None)
            self._wake.notify_all()

    def _work(self) -> None:
        scheduler = self._scheduler
        try:
            while True:
                with self._wake:
                    self._wake.wait_for(lambda: self._inbox or self._stopping or scheduler.busy)
                    if self._stopping:
                        break
                    orders = list(self._inbox)
                    self._inbox.clear()
                for order in orders:
                    order()
                scheduler.step()
            self._end(Closing("the engine was closed while the request was running"))
        except BaseException as error:  # noqa: BLE001 - nobody may wait for a thread that is gone
            self._failed = f"the scheduler failed: {type(error).__name__}: {error}"
            failed = ModelError(self._failed)
            failed.__cause__ = error
            self._end(failed)

    def _end(self, error: ModelError) -> None:
        with self._wake:
            self._accepts, self._stopping = False, True
            orders = list(self._inbox)
            self._inbox.clear()
        for order in orders:
            order()
        self._scheduler.fail_all(error)
        with self._wake:
            self._wake.notify_all()
