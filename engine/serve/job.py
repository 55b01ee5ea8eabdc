"""One generation, made as fast as the model goes, whatever the speed of the client.

The slot is free when the model is done; a client that reads slowly keeps only its own buffer.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from types import TracebackType

from ..chat import ReasoningDelta, TextDelta, ToolCallArguments
from .admission import Admission
from .backend import Backend, GenerationEvent, GenerationRequest
from .record import Record

MOST_HELD = 32 << 20
"""Characters of an answer that a client has not taken yet; more is nobody who reads."""
_END = object()


class Stopping(Exception):
    """The server ends, and this request with it."""


class Silence(Exception):
    """Nothing has come for a while; the generation goes on."""


class ClientTooSlow(Exception):
    """The client does not read."""


class Job:
    """An asynchronous context: leaving it cancels the generation and waits until that is done."""

    def __init__(
        self, backend: Backend, admission: Admission, request: GenerationRequest, record: Record
    ) -> None:
        self._backend = backend
        self._admission = admission
        self._request = request
        self._record = record
        self._events: asyncio.Queue[object] = asyncio.Queue()
        self._held = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Job:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])

    async def next(self, timeout_s: float | None = None) -> GenerationEvent | None:
        """The next event, or None after the last one.

        Raises:
            Silence: nothing has come for so long; ask again.
            Exception: what the backend or the admission raised.
        """
        try:
            async with asyncio.timeout(timeout_s):
                event = await self._events.get()
        except TimeoutError as error:
            raise Silence from error
        if event is _END:
            return None
        if isinstance(event, BaseException):
            raise event
        self._held -= _size(event)
        return event  # pyright: ignore[reportReturnType]

    async def _run(self) -> None:
        try:
            async with (
                self._admission.admitted(self._stop),
                aclosing(self._backend.generate(self._request)) as events,
            ):
                async for event in events:
                    self._record.note(event)
                    self._held += _size(event)
                    if self._held > MOST_HELD:
                        raise ClientTooSlow
                    self._events.put_nowait(event)
            self._events.put_nowait(_END)
        except Exception as error:  # noqa: BLE001 - handed on to whoever waits for the answer
            self._events.put_nowait(error)

    def _stop(self) -> None:
        self._events.put_nowait(Stopping())
        if self._task is not None:
            self._task.cancel()


def _size(event: object) -> int:
    if isinstance(event, TextDelta | ReasoningDelta):
        return len(event.text)
    return len(event.delta) if isinstance(event, ToolCallArguments) else 64
