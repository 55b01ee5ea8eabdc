"""Servers that are not what they should be, byte by byte over real sockets."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from whimbrel.app.agent.events import UsageTotals
from whimbrel.app.agent.history import StepBuilder
from whimbrel.app.agent.limits import MaxAnswer, RunState
from whimbrel.engine.chat import ModelNotice, StreamEvent, TextDelta, user
from whimbrel.engine.remote import sse
from whimbrel.engine.remote.client import RemoteModel
from whimbrel.engine.remote.endpoint import resolve
from whimbrel.engine.remote.failures import RemoteError
from whimbrel.sandbox.base.errors import BudgetExceeded

KEY = "sk-canary-0123456789"
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def piece(delta: dict[str, Any] | None = None, finish: str | None = None, **extra: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **extra}).encode() + b"\n\n"


END = piece(finish="stop") + b"data: [DONE]\n\n"


def status(code: int, body: bytes = b"", *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in headers)
    return (
        f"HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {len(body)}\r\n{lines}\r\n".encode()
        + body
    )


class Raw:
    """A server that answers every request with the same bytes (or by a function of the socket)."""

    def __init__(self, answer: bytes | Callable[[socket.socket], None]) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536) or b"\r\n\r\n"
                head, _, body = head.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                while len(body) < length:
                    body += connection.recv(65536)
                self.requests.append(head)
                if callable(self._answer):
                    self._answer(connection)
                else:
                    connection.sendall(self._answer)
            except OSError:
                pass  # the client went away, which some tests want

    def close(self) -> None:
        self._listener.close()


@contextmanager
def serving(answer: bytes | Callable[[socket.socket], None]) -> Generator[Raw]:
    server = Raw(answer)
    try:
        yield server
    finally:
        server.close()


async def events_of(server: Raw) -> AsyncGenerator[StreamEvent]:
    async def no_wait(_: float) -> None:
        return

    model = RemoteModel(resolve("vllm", "m", server.url, {"WHIMBREL_API_KEY": KEY}), sleep=no_wait)
    try:
        async for event in model.stream([user("hi")], []):
            yield event
    finally:
        await model.close()


async def step(server: Raw) -> tuple[StepBuilder, Sequence[StreamEvent]]:
    builder, seen = StepBuilder(), []
    async for event in events_of(server):
        builder.feed(event)
        seen.append(event)
    return builder, seen


def reset(connection: socket.socket) -> None:
    connection.sendall(OK + piece({"content": "hel"}))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body>hello</body></html>"


@pytest.mark.parametrize(
    ("answer", "said", "requests"),
    [
        (b"\0\1\2 hello\r\n\r\n", "not proper HTTP", 5),
        (b"", "disconnected", 5),
        (reset, "connection broke", 3),
        (OK[:-2] + b"transfer-encoding: chunked\r\n\r\nZZ\r\nabc\r\n", "not proper HTTP", 5),
        (OK + PAGE, "a web page came instead of an answer: Sign in", 1),
        (status(404, PAGE), "HTTP 404: a web page came instead of an answer: Sign in", 1),
        (status(502, PAGE), "HTTP 502: a web page: Sign in", 5),
        (OK + b"[1, 2]", "no chat completion: [1, 2]", 5),
        (OK, "ended its answer in the middle", 4),  # once more without a stream, to hear why
        (status(302, b"", "location: https://else.example/v1"), "redirects to https://else.example/v1", 1),
        (status(307, b"", f"location: https://u:p@else.example/?k={KEY}"), "redirects to https://else.example/,", 1),
        (status(400, b'{"error":' * 5000), "HTTP 400", 1),
        (OK + b"data: " + b"[" * 100_000 + b"\n\n", "no chat completion: [[[[", 5),
        (OK + piece({"content": "one"}) + b"data: {broken\n\n" + piece({"content": "two"}) + END, "damaged piece", 3),
        (OK[:-2] + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"a" * (70 << 20), mtime=0), "over 64 MiB", 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
async def test_each_ends_in_one_clear_line(answer: Any, said: str, requests: int) -> None:
    with serving(answer) as server:
        with pytest.raises(RemoteError) as caught:
            await step(server)
        line = caught.value.one_line()
        assert said in line and "\n" not in line and KEY not in line and len(line) < 800
        assert len(server.requests) == requests, "only what a second try can cure is tried again"


async def test_a_refusal_without_end_is_not_read_to_its_end() -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 X\r\nconnection: close\r\n\r\n")
        while True:
            connection.sendall(b"no " * 20_000)

    with serving(endless) as server, pytest.raises(RemoteError, match="HTTP 400: no no"):
        await step(server)


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_ANSWER_BYTES", 4 << 20)

    def endless(connection: socket.socket) -> None:
        connection.sendall(OK + b"data: ")
        while True:
            connection.sendall(b"x" * 65_536)

    with serving(endless) as server, pytest.raises(RemoteError, match="answer too large"):
        await step(server)


async def test_a_long_line_and_many_small_pieces_are_read_in_linear_time() -> None:
    """Joining piece by piece would take minutes here."""
    long = " ".join(map(str, range(600_000)))
    many = b"".join(piece({"content": f"w{number} "}) for number in range(20_000))
    with serving(OK + piece({"content": long}) + many + END) as server:
        builder, _ = await step(server)
    text = builder.message().text()
    assert text.startswith(long + "w0 w1 ") and text.endswith("w19999 ")


async def test_an_answer_that_goes_on_and_on_is_a_budget_of_its_own() -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(OK)
        number = 0
        while True:
            connection.sendall(piece({"content": f"and another thing, number {number}; " * 20}))
            number += 1

    limit = MaxAnswer(100_000)
    limit.before_step(RunState(usage=UsageTotals()))
    with serving(endless) as server, pytest.raises(BudgetExceeded, match="more than 100000 characters"):
        async for event in events_of(server):
            limit.on_stream(event)


async def test_one_id_given_to_two_parallel_calls_stays_two_calls() -> None:
    calls = [
        {"index": n, "id": "same", "function": {"name": "read", "arguments": json.dumps({"path": name})}}
        for n, name in enumerate("ab")
    ]
    body = b"".join(piece({"tool_calls": [call]}) for call in calls)
    with serving(OK + body + piece(finish="tool_calls") + b"data: [DONE]\n\n") as server:
        builder, _ = await step(server)
    builder.message()
    assert [call.arguments for call in builder.calls] == [{"path": "a"}, {"path": "b"}]
    assert len({call.part.id for call in builder.calls}) == 2


async def test_a_cost_that_is_no_number_is_no_cost() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":1e999}}\n\n'
    with serving(OK + piece({"content": "t"}) + usage + END) as server:
        builder, _ = await step(server)
    assert builder.usage is not None and builder.usage.cost_usd is None


async def test_told_to_come_back_at_once_it_still_waits_a_little() -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    with serving(status(429, b"{}", "retry-after: 0")) as server:
        model = RemoteModel(resolve("vllm", "m", server.url, {}), sleep=note)
        with pytest.raises(RemoteError):
            async for _ in model.stream([user("hi")], []):
                pass
        await model.close()
    assert len(waits) == 4 and all(wait > 0.2 for wait in waits)


async def test_one_byte_at_a_time_invalid_utf8_and_wrong_content_types_are_read() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a\xff\xc3\xa9"}}]}\n\n' + END

    def drip(connection: socket.socket) -> None:
        connection.sendall(OK.replace(b"text/event-stream", b"application/octet-stream"))
        for byte in body:
            connection.sendall(bytes([byte]))

    with serving(drip) as server:
        builder, seen = await step(server)
    assert builder.message().text() == "a\ufffdé"
    assert not any(isinstance(event, ModelNotice) for event in seen)
    assert sum(isinstance(event, TextDelta) for event in seen) == 1


async def test_an_answer_without_a_content_type_is_read_and_paid_for_once() -> None:
    with serving(
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + piece({"content": "fine"}) + END
    ) as server:
        builder, _ = await step(server)
        assert builder.message().text() == "fine"
        assert len(server.requests) == 1
