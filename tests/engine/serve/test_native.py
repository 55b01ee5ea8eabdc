"""The native engine behind the server: a tiny random checkpoint writes noise, but under the rules it was given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from whimbrel.app.agent.prompts import opening
from whimbrel.engine.kimi.backend import NativeBackend
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.models import load_model
from whimbrel.engine.serve.backend import GenerationEvent, GenerationRequest, Structure, ToolChoice

from ...agent.scene import Echo, scene
from .scripted import Running, running, until

PATHS = ["notes.txt", "setup.py"]


class Directed(NativeBackend):
    """The model's words where the grammar leaves it a choice: first a call, then one of two sentences."""

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        if request.tools and request.tool_choice.mode == "auto":
            if request.messages[-1].role == "tool":
                said = Structure("choice", ("It is fixed.", "It is not fixed."))
                request = replace(request, tool_choice=ToolChoice("none"), structure=said)
            else:
                schema = {**SCHEMA, "properties": {"path": {"enum": PATHS}}, "required": ["path"]}
                tools = tuple(replace(tool, parameters=schema) for tool in request.tools)
                request = replace(
                    request, tools=tools, tool_choice=ToolChoice("required"), parallel_tool_calls=False
                )
        async with aclosing(super().generate(request)) as events:
            async for event in events:
                yield event


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny") / "kimi-linear"
    make_tiny(made, TinyOptions("kimi-linear", hidden=32, layers=4, experts=4, max_context=16384))
    return made


@pytest.fixture
async def at(folder: Path) -> AsyncIterator[Running]:
    backend: Any = Directed.open(str(folder), ["tiny"], {"WHIMBREL_KIMI_EXACT": "1"})
    await backend.start()
    try:
        async with running(backend) as served:
            yield served
    finally:
        await backend.close()


SCHEMA: Any = {
    "type": "object",
    "properties": {"colour": {"enum": ["teal", "red"]}, "big": {"type": "boolean"}},
    "required": ["colour", "big"],
    "additionalProperties": False,
}
KINDS = [0, 4, 0, 3, 0, 1, 0, 2]
"""Of eight clients: a stream, one that leaves, log-probabilities, a schema, a call."""
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {**SCHEMA, "properties": {**SCHEMA["properties"], "n": {"enum": [7]}}}}}
    for name in ("first", "second")
]  # fmt: skip


async def test_32_clients_get_what_they_asked_for_at_the_same_time(at: Running) -> None:
    # More connections than a client keeps by itself.
    http = httpx.AsyncClient(
        timeout=100, trust_env=False, verify=False, limits=httpx.Limits(max_connections=64)
    )
    client = openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x", max_retries=0, http_client=http)

    async def ask(number: int, kind: int) -> Any:
        asked: Any = {
            "model": "tiny",
            "messages": [{"role": "user", "content": f"question {number}"}],
            "seed": number,
            "max_tokens": 6,
        }
        create = client.chat.completions.create
        if kind == 0:
            stream = await create(**asked, stream=True, stream_options={"include_usage": True})
            chunks = [chunk async for chunk in stream]
            assert chunks[-1].usage and 0 < chunks[-1].usage.completion_tokens <= 6
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        if kind == 1:
            form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
            answer = await create(**{**asked, "max_tokens": 400}, response_format=form)
            value = json.loads(answer.choices[0].message.content or "")
            assert value["colour"] in ("teal", "red") and isinstance(value["big"], bool)
            return value
        if kind == 2:
            named = {"type": "function", "function": {"name": "second"}}
            answer = await create(**{**asked, "max_tokens": 400}, tools=TOOLS, tool_choice=named)
            (call,) = answer.choices[0].message.tool_calls or ()
            assert call.type == "function" and call.function.name == "second"
            assert answer.choices[0].finish_reason == "tool_calls"
            return json.loads(call.function.arguments)["colour"]
        if kind == 3:
            answer = await create(**asked, logprobs=True, top_logprobs=2)
            chances = (answer.choices[0].logprobs and answer.choices[0].logprobs.content) or []
            assert all(each.logprob <= 0 and len(each.top_logprobs) == 2 for each in chances) and chances
            return [each.token for each in chances]
        stream = await create(**{**asked, "max_tokens": 4000}, stream=True)
        async for _ in stream:
            break
        await stream.close()
        return None

    async with client:
        together = await asyncio.gather(*(ask(number, KINDS[number % 8]) for number in range(32)))
        await until(lambda: at.server.admission.running == 0)
        # Alone, with the same seed, each says what it said among the others.
        for number in (0, 3, 7):
            assert await ask(number, KINDS[number % 8]) == together[number]
    figures = await at.metrics()
    assert figures["whimbrel_requests_aborted_total"] == 4
    assert figures['whimbrel_engine_requests_total{end="cancelled"}'] == 4
    assert figures["whimbrel_engine_running"] == figures["whimbrel_engine_waiting"] == 0


async def test_the_agent_completes_a_session_over_http(tmp_path: Path, at: Running) -> None:
    model = load_model(f"vllm:tiny@{at.url}/v1", environ={})
    echo = Echo()
    async with scene(tmp_path) as here:
        try:
            outcome = await here.make(model, [echo]).run(opening("look"), effort="low")
        finally:
            await model.close()
    assert outcome.status == "answered", outcome.error
    assert outcome.final_text in ("It is fixed.", "It is not fixed.") and outcome.steps == 2
    assert len(echo.seen) == 1 and echo.seen[0] in PATHS
    assert outcome.usage.input_tokens > 100 and not outcome.usage.steps_without_usage
