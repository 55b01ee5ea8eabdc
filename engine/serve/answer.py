"""From a request that has been read to the bytes of its answer, watching whether anybody still listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .backend import GenerationEvent
from .failing import Form, problem_of
from .job import Job, Silence
from .record import Record

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

GONE = 499
"""Status, in the log and the metrics only, of a request whose client left before the answer."""


class ClientGone(Exception):
    """Nobody is there any more to take the answer."""


class Writer(Protocol):
    """``ChatWriter`` and ``MessageWriter``."""

    content_type: str
    waiting: bytes

    def feed(self, event: GenerationEvent) -> Iterator[bytes]: ...
    def end(self) -> Iterator[bytes]: ...
    def error(self, body: dict[str, Any]) -> bytes: ...
    def gather(self, event: GenerationEvent) -> None: ...
    def whole(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Patience:
    """Seconds."""

    silence_s: float = 15.0
    """After so long without an event a stream says that it is still there."""
    send_s: float = 60.0
    """A client that takes no bytes for so long has gone."""
    body_s: float = 60.0
    """For the body of a request to arrive."""


async def answer(
    job: Job,
    writer: Writer,
    *,
    stream: bool,
    form: Form,
    record: Record,
    receive: Receive,
    send: Send,
    patience: Patience,
) -> None:
    """Sends the answer; when the client leaves, the generation ends at once.

    Raises:
        ClientGone: it left.
        Exception: what failed before the first byte was sent; whoever called says so.
    """
    respond = _stream if stream else _whole
    sending = asyncio.create_task(_within(job, respond, writer, form, record, send, patience))
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            raise ClientGone
        sending.result()
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.wait([sending, leaving])
        if not sending.cancelled():
            sending.exception()  # somebody has looked at it: nothing is said of it later


async def send_json(
    send: Send,
    status: int,
    value: Any,
    headers: dict[str, str] | None = None,
    *,
    content_type: str = "application/json",
) -> None:
    body = (
        value
        if isinstance(value, bytes)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    )
    pairs = {"content-type": content_type, "content-length": str(len(body)), **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": _raw(pairs)})
    await send({"type": "http.response.body", "body": body})


async def _within(job: Job, respond: Any, *rest: Any) -> None:
    async with job:
        await respond(job, *rest)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(
    job: Job, writer: Writer, form: Form, record: Record, send: Send, patience: Patience
) -> None:
    while (event := await job.next()) is not None:
        writer.gather(event)
    await _patiently(send_json(send, 200, writer.whole()), patience)


async def _stream(
    job: Job, writer: Writer, form: Form, record: Record, send: Send, patience: Patience
) -> None:
    """The status waits for the first event, so that a refusal is a refusal; but not for ever."""
    started = False

    async def put(*pieces: bytes, more: bool = True) -> None:
        nonlocal started
        if not started:
            started = True
            headers = {"content-type": writer.content_type, "cache-control": "no-cache"}
            # Proxies that collect an answer before they pass it on would spoil the stream.
            start = {"type": "http.response.start", "status": 200}
            await _patiently(
                send({**start, "headers": _raw(headers | {"x-accel-buffering": "no"})}), patience
            )
        body = {"type": "http.response.body", "body": b"".join(pieces), "more_body": more}
        await _patiently(send(body), patience)

    try:
        while True:
            try:
                event = await job.next(patience.silence_s)
            except Silence:
                await put(writer.waiting)
                continue
            if event is None:
                break
            if pieces := list(writer.feed(event)):
                await put(*pieces)
        await put(*writer.end(), more=False)
    except ClientGone:
        raise
    except Exception as error:
        if not started:
            raise
        problem = problem_of(error)
        record.error, record.cause = problem.code, type(error).__name__
        await put(writer.error(problem.body(form, record.id)), more=False)


async def _patiently(sending: Awaitable[None], patience: Patience) -> None:
    try:
        async with asyncio.timeout(patience.send_s):
            await sending
    except (TimeoutError, OSError) as error:
        raise ClientGone from error


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
