"""A backend whose model is a script, and a real server around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from whimbrel.engine.chat import (
    Capabilities,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from whimbrel.engine.serve.app import Limits, Server
from whimbrel.engine.serve.backend import Backend, Figure, GenerationEvent, GenerationRequest
from whimbrel.engine.serve.run import listen, web_server

Script = Callable[[GenerationRequest], AsyncGenerator[GenerationEvent]]


def call(number: str, name: str, *pieces: str) -> list[GenerationEvent]:
    whole = "".join(pieces)
    return [
        ToolCallStart(id=number, name=name),
        *(ToolCallArguments(id=number, delta=piece) for piece in pieces),
        ToolCallEnd(id=number, name=name, arguments=whole or "{}"),
    ]


def says(*events: GenerationEvent | str, reason: Any = "stop", cached: int | None = 4) -> Script:
    """Always the same answer: texts and other events, then counts and the end."""

    async def script(_: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        yield Usage(input_tokens=10, cached_tokens=cached)
        for event in events:
            yield TextDelta(text=event) if isinstance(event, str) else event
        yield Usage(input_tokens=10, output_tokens=7, cached_tokens=cached, reasoning_tokens=3)
        yield Finished(reason=reason)

    return script


THOUGHT = ReasoningDelta(text="let me see")


@dataclass
class Scripted:
    """Implements Backend."""

    script: Script
    names: Sequence[str] = ("tiny", "alias")
    context_window: int = 1000
    max_concurrent: int | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)
    checked: Callable[[GenerationRequest], None] = lambda _: None
    requests: list[GenerationRequest] = field(default_factory=list[GenerationRequest])
    running: int = 0
    most: int = 0
    """Requests that ran at one time."""
    cut: int = 0
    """Answers that were closed before their end."""
    ill: str = ""
    notices: Sequence[str] = ()

    async def start(self) -> None: ...

    def check(self, request: GenerationRequest) -> None:
        self.checked(request)

    async def count_tokens(self, request: GenerationRequest) -> int:
        return 100 * len(request.messages) + len(request.tools)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        whole = False
        try:
            async for event in self.script(request):
                yield event
            whole = True
        finally:
            self.running -= 1
            self.cut += not whole

    def figures(self) -> Sequence[Figure]:
        return [
            Figure("experts_hit", "Hits", 3, "counter", {"layer": "1"}),
            Figure("experts_hit", "Hits", 5, "counter", {"layer": "2"}),
        ]

    def trouble(self) -> str:
        return self.ill

    async def close(self) -> None: ...


@dataclass
class Running:
    """A server on a port of its own."""

    url: str
    server: Server
    backend: Scripted
    http: httpx.AsyncClient

    async def chat(self, **values: Any) -> httpx.Response:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], **values}
        return await self.http.post("/v1/chat/completions", json=body)

    async def message(self, path: str = "/v1/messages", **values: Any) -> httpx.Response:
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 50,
            **values,
        }
        return await self.http.post(path, json=body)

    async def metrics(self) -> dict[str, float]:
        lines = (await self.http.get("/metrics")).text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and line[0] != "#")
        return {name: float(value) for name, _, value in pairs}


@asynccontextmanager
async def running(
    script: Script | Backend, *, limits: Limits | None = None, keys: Sequence[str] = ()
) -> AsyncIterator[Running]:
    backend: Any = script if hasattr(script, "generate") else Scripted(script)  # pyright: ignore
    server = Server(backend, version="1.2.3", limits=limits, keys=keys)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    web = web_server(server)
    # Without the loop of `serve`, which looks at the clock ten times a second and ends when it next does.
    web.config.load()
    web.lifespan = web.config.lifespan_class(web.config)
    await web.startup(sockets=[listening])
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False, verify=False) as http:
            yield Running(url, server, backend, http)
    finally:
        web.force_exit = True
        await web.shutdown(sockets=[listening])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - of a state that announces no change
            await asyncio.sleep(0.005)
