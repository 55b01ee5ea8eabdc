"""The native engine behind the server: a tiny random checkpoint writes noise, but under the rules it was given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.prompts import opening
from whimbrel.engine.kimi.backend import NativeBackend
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.models import load_model
from whimbrel.engine.serve.backend import GenerationEvent, GenerationRequest, Structure, ToolChoice

from ...agent.scene import Echo, scene
from .scripted import Running, running

PATHS = ["notes.txt", "setup.py"]


class Directed(NativeBackend):
    """The model's words where the grammar leaves it a choice: first a call, then one of two sentences."""

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        if request.tools and request.tool_choice.mode == "auto":
            if request.messages[-1].role == "tool":
                said = Structure("choice", ("It is fixed.", "It is not fixed."))
                request = replace(request, tool_choice=ToolChoice("none"), structure=said)
            else:
                schema: dict[str, Any] = {
                    "type": "object",
                    "properties": {"path": {"enum": PATHS}},
                    "required": ["path"],
                    "additionalProperties": False,
                }
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
    backend: Any = Directed.open(
        str(folder), ["tiny"], {"WHIMBREL_KIMI_CACHE_MIB": "64", "WHIMBREL_KIMI_EXACT": "1"}
    )
    await backend.start()
    try:
        async with running(backend) as served:
            yield served
    finally:
        await backend.close()


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
