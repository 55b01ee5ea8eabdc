"""The native engine behind the server: a tiny random checkpoint writes noise, but under the rules it was given."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from whimbrel.app.agent.prompts import opening
from whimbrel.engine.kimi.backend import NativeBackend
from whimbrel.engine.kimi.chatmodel import KimiModel
from whimbrel.engine.kimi.opening import resolve_folder
from whimbrel.engine.kimi.parallel.runner import ParallelRunner
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


async def test_a_person_is_told_what_is_strange_and_a_client_what_is_wrong_with_its_image(
    tmp_path: Path,
) -> None:
    made = tmp_path / "seeing"
    make_tiny(made, TinyOptions("k31", hidden=32, layers=4, experts=4, max_context=4096, vision=True))
    config = json.loads((made / "config.json").read_text())
    config["text_config"]["strange_key"] = 3
    (made / "config.json").write_text(json.dumps(config))
    (made / "encoding_k3.py").unlink()
    backend = NativeBackend.open(str(made), ["tiny"], {"WHIMBREL_KIMI_CACHE_MIB": "8"})
    await backend.start()
    try:
        strange, wording = backend.notices
        assert "strange_key" in strange and "wording" in wording
        picture = io.BytesIO()
        Image.effect_noise((60, 60), 50).save(picture, "PNG")
        whole = picture.getvalue()
        async with running(backend) as served:
            for data, status in ((whole, 200), (whole[: len(whole) // 2], 400), (b"nonsense", 400)):
                url = "data:image/png;base64," + base64.b64encode(data).decode()
                part = {"type": "image_url", "image_url": {"url": url}}
                answered = await served.chat(messages=[{"role": "user", "content": [part]}], max_tokens=2)
                assert answered.status_code == status, answered.text
            for given, status in (
                ({"preserve_thinking": True, "add_generation_prompt": True}, 200),
                ({"preserve_thinking": False}, 400),
                ({"invented": 1}, 400),
            ):
                answered = await served.chat(chat_template_kwargs=given, max_tokens=2)
                assert answered.status_code == status, answered.text
            assert (await served.metrics())["whimbrel_engine_pages_total"] > 0
    finally:
        await backend.close()


async def test_a_model_whose_processes_were_killed_is_loaded_again_by_the_next_step(
    folder: Path,
) -> None:
    local = resolve_folder(str(folder), {"WHIMBREL_KIMI_CACHE_MIB": "8", "WHIMBREL_KIMI_TENSOR": "2"})
    model = KimiModel(local)
    try:
        first = model._load()
        runner = first.runner
        assert isinstance(runner, ParallelRunner) and model._load() is first
        runner._processes[0].kill()
        runner._processes[0].wait(10)
        second = model._load()
        assert second is not first and second.engine.trouble == ""
    finally:
        await model.close()
