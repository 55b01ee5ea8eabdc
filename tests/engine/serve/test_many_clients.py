"""Many clients at once: each gets its own answer, nobody waits for a slow one, nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator

import httpx
from whimbrel.engine.chat import Finished, TextDelta, Usage
from whimbrel.engine.serve.answer import Patience
from whimbrel.engine.serve.app import Limits
from whimbrel.engine.serve.backend import GenerationEvent, GenerationRequest

from .scripted import Running, running, until


async def echo(request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
    """Says word by word what it was told, letting others in between."""
    words = request.messages[-1].text().split()
    for word in words:
        await asyncio.sleep(0)
        yield TextDelta(text=f"{word} ")
    yield Usage(input_tokens=1, output_tokens=len(words))
    yield Finished(reason="stop")


class Gate:
    """A model that says one word and then waits until it is let go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        yield TextDelta(text="begun ")
        await self.open.wait()
        yield TextDelta(text="done")
        yield Usage(input_tokens=1, output_tokens=2)
        yield Finished(reason="stop")


def text_of(stream: str) -> str:
    found = ""
    for line in stream.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                found += choice["delta"].get("content") or ""
    return found


async def test_32_clients_get_their_own_answers_with_not_more_at_once_than_allowed() -> None:
    async def ask(at: Running, number: int) -> str:
        said = " ".join(f"{number}.{word}" for word in range(50))
        messages = [{"role": "user", "content": said}]
        if number % 4 == 0:
            return (await at.message(messages=messages)).json()["content"][0]["text"] + f"={said} "
        response = await at.chat(messages=messages, stream=number % 2 == 1)
        text = text_of(response.text) if number % 2 else response.json()["choices"][0]["message"]["content"]
        return f"{text}={said} "

    async with running(echo, limits=Limits(concurrent=8)) as at:
        answers = await asyncio.gather(*(ask(at, number) for number in range(32)))
        figures = await at.metrics()
        assert at.backend.most == 8 and at.backend.running == 0
    for answer in answers:
        got, _, wanted = answer.partition("=")
        assert got == wanted
    assert figures["whimbrel_generation_tokens_total"] == 32 * 50
    assert figures["whimbrel_time_to_first_token_seconds_count"] == 32
    assert figures["whimbrel_inter_token_seconds_count"] == 32 * 49
    assert figures["whimbrel_requests_running"] == figures["whimbrel_requests_waiting"] == 0
    assert figures['whimbrel_experts_hit_total{layer="2"}'] == 5


async def test_a_full_queue_sends_away_and_those_who_wait_keep_their_turn() -> None:
    gate = Gate()
    async with running(gate, limits=Limits(concurrent=1, queue=2)) as at:
        asked: list[asyncio.Task[httpx.Response]] = []
        for number in range(3):
            asked.append(asyncio.create_task(at.chat(seed=number)))
            await until(lambda: at.server.admission.running + at.server.admission.waiting == len(asked))
        away = await at.chat()
        other = await at.message()
        ready = await at.http.get("/ready")
        gate.open.set()
        answers = await asyncio.gather(*asked)
        order = [request.sampling.seed for request in at.backend.requests]
    assert away.status_code == 429 and int(away.headers["retry-after"]) >= 1
    assert other.status_code == 429 and other.json()["error"]["type"] == "rate_limit_error"
    assert away.json()["error"]["code"] == "queue_full" and ready.status_code == 503
    assert [answer.status_code for answer in answers] == [200] * 3 and order == [0, 1, 2]


async def test_a_client_that_leaves_frees_its_place_and_harms_nobody() -> None:
    """Two wait in the queue, one reads a stream, one waits for the whole; another one stays."""
    gate = Gate()
    async with running(gate, limits=Limits(concurrent=3, queue=5)) as at:
        staying = asyncio.create_task(at.chat())
        await until(lambda: at.server.admission.running == 1)
        tasks = [asyncio.create_task(at.chat(stream=number == 0)) for number in range(4)]
        await until(lambda: at.server.admission.running == 3 and at.server.admission.waiting == 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await until(lambda: at.server.admission.running == 1 and at.server.admission.waiting == 0)
        await until(lambda: at.backend.running == 1)
        # Those that waited never got to the model.
        assert at.backend.cut == 2 and len(at.backend.requests) == 3
        gate.open.set()
        answers = [await staying, await at.chat()]
        assert [each.json()["choices"][0]["message"]["content"] for each in answers] == ["begun done"] * 2
        figures = await at.metrics()
    assert figures["whimbrel_requests_aborted_total"] == 4


async def test_a_client_that_does_not_read_holds_up_neither_the_model_nor_others() -> None:
    async def flood(request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        pieces = 400 if request.messages[-1].text() == "much" else 1
        for _ in range(pieces):
            yield TextDelta(text="x" * 20_000)
        yield Finished(reason="stop")

    limits = Limits(concurrent=1, patience=Patience(send_s=0.3))
    async with running(flood, limits=limits) as at:
        _, writer = await asyncio.open_connection("127.0.0.1", at.http.base_url.port, limit=1024)
        body = json.dumps(
            {"model": "tiny", "messages": [{"role": "user", "content": "much"}], "stream": True}
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await until(lambda: len(at.backend.requests) == 1)
        # There is one slot only; it is free although nobody has read the eight megabytes.
        assert (await at.chat()).status_code == 200
        assert at.backend.cut == 0
        # And who never reads is dropped.
        async with asyncio.timeout(10):
            while (await at.metrics())["whimbrel_requests_aborted_total"] != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        writer.close()


async def test_a_silent_stream_says_that_it_is_still_there() -> None:
    gate = Gate()
    async with running(gate, limits=Limits(patience=Patience(silence_s=0.02))) as at:
        for path in ("/v1/chat/completions", "/v1/messages"):
            gate.open.clear()
            body = {
                "model": "tiny",
                "messages": [{"role": "user", "content": "x"}],
                "stream": True,
                "max_tokens": 5,
            }
            seen = ""
            async with at.http.stream("POST", path, json=body) as response:
                async for line in response.aiter_lines():
                    seen += line + "\n"
                    if line in (": waiting", "event: ping"):
                        gate.open.set()
            assert "begun" in seen and "done" in seen and gate.open.is_set()


async def test_draining_refuses_the_new_and_lets_the_old_end() -> None:
    gate = Gate()
    async with running(gate) as at:
        old = asyncio.create_task(at.chat())
        await until(lambda: at.backend.running == 1)
        drained = asyncio.create_task(at.server.admission.drain(20))
        await asyncio.sleep(0)
        new, other, ready = await at.chat(), await at.message(), await at.http.get("/ready")
        assert not drained.done()
        gate.open.set()
        assert await drained and (await old).status_code == 200
    assert new.status_code == 503 and new.headers["retry-after"]
    assert other.json()["error"]["type"] == "overloaded_error"
    assert ready.status_code == 503 and ready.json() == {"status": "draining"}


async def test_what_does_not_end_in_time_is_told_that_it_is_cut() -> None:
    gate = Gate()
    async with running(gate) as at:
        streamed = asyncio.create_task(at.chat(stream=True))
        whole = asyncio.create_task(at.chat())
        await until(lambda: at.backend.running == 2)
        assert not await at.server.admission.drain(0)
        at.server.admission.end_all()
        first, second = await asyncio.gather(streamed, whole)
        await until(lambda: at.backend.running == 0)
    assert "shutting down" in first.text.split("data: ")[-1] and "[DONE]" not in first.text
    assert second.status_code == 503


async def test_the_answer_is_a_stream_that_begins_before_it_ends() -> None:
    gate = Gate()
    async with running(gate) as at, contextlib.AsyncExitStack() as stack:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "stream": True}
        response = await stack.enter_async_context(at.http.stream("POST", "/v1/chat/completions", json=body))
        lines = response.aiter_lines()
        while "begun" not in await anext(lines):
            pass
        assert response.headers["content-type"].startswith("text/event-stream") and not gate.open.is_set()
        gate.open.set()
        assert "data: [DONE]" in [line async for line in lines]
