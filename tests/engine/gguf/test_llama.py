"""A real model in a real llama.cpp: the plumbing, not the wit, of 135 million parameters."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.limits import MaxSteps
from whimbrel.engine.chat import (
    Finished,
    Message,
    ModelNotice,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallEnd,
    ToolCallPart,
    ToolSpec,
    Usage,
    system,
    user,
)
from whimbrel.engine.gguf.model import LlamaModel, resolve_file
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.failures import Failure, RemoteError
from whimbrel.sandbox.base.errors import ConfigError, ModelError

from ...agent.scene import Echo, scene
from .local_model import need_local_model

pytestmark = pytest.mark.timeout(120)

SETTINGS = {"WHIMBREL_LLAMA_THREADS": "1", "WHIMBREL_LLAMA_CONTEXT": "2048"}
READ = ToolSpec(
    "read",
    "Reads a file",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 100000},
            "mode": {"enum": ["text", "hex"]},
            "type": {"$ref": "#/$defs/kind"},
        },
        "required": ["path", "mode", "type"],
        "additionalProperties": False,
        "$defs": {"kind": {"type": ["boolean", "null"]}},
    },
)
ODD = ToolSpec("odd", "Any", {"properties": {"x": True, "y": {"pattern": "("}}, "if": {}})


@pytest.fixture(scope="module")
def model() -> Iterator[LlamaModel]:
    need_local_model()
    made = LlamaModel(resolve_file("smollm2", SETTINGS))
    yield made
    asyncio.run(made.close())


async def ask(
    model: LlamaModel, history: Sequence[Message], tools: Sequence[ToolSpec] = (), **values: Any
) -> list[StreamEvent]:
    values = {"seed": 1, "max_output_tokens": 8, **values}
    return [each async for each in model.stream(history, tools, **values)]


def only(events: Sequence[StreamEvent], kind: Any) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


def said(events: Sequence[StreamEvent]) -> str:
    return "".join(each.text for each in only(events, TextDelta))


LONG = [
    system("You answer briefly."),
    user("Numbers: " + " ".join(str(n) for n in range(90)) + ". Say hello."),
]


async def test_an_answer_streams_and_the_same_question_gives_the_same_answer(model: LlamaModel) -> None:
    first = await ask(model, LONG)
    assert len(only(first, TextDelta)) > 3 and first[-1] == Finished(reason="length")
    (usage,) = only(first, Usage)
    assert usage.output_tokens == 8 and usage.cached_tokens == 0
    # Exact, and without the answer that was asked for: the template adds three tokens to open it.
    assert 0 < usage.input_tokens - model.count_tokens(LONG, ()) <= 5
    # In between something else, so that only a part of the prompt is still known.
    other = await ask(model, [*LONG[:1], user("Numbers: 1 2 3.")])
    assert said(other) != said(first)
    again = await ask(model, LONG)
    assert said(again) == said(first)
    warm = await ask(model, LONG)
    assert said(warm) == said(first)
    assert only(warm, Usage)[0].cached_tokens == 256
    assert said(await ask(model, LONG, seed=2)) != said(first)
    assert model.context_window == 2048 and model.capabilities.deterministic


async def test_a_call_can_only_be_one_of_the_tools_with_arguments_that_fit() -> None:
    need_local_model()
    model = LlamaModel(resolve_file("smollm2", SETTINGS), call_first=True)
    try:
        events = await ask(model, [user("Read the file notes.txt")], (READ, ODD), max_output_tokens=200)
    finally:
        await model.close()
    calls = only(events, ToolCallEnd)
    assert calls and "<tool_call>" not in said(events)
    assert calls[0].name in ("read", "odd")
    if events[-1] == Finished(reason="tool_calls"):
        for call in calls:
            arguments = json.loads(call.arguments)
            if call.name == "read":
                assert arguments["mode"] in ("text", "hex") and arguments["type"] in (True, False, None)


async def test_a_call_begun_in_the_middle_of_an_answer_is_held_to_the_grammar(model: LlamaModel) -> None:
    # The model goes on as it was shown; from the tag on it has no choice but a call that fits.
    tool = ToolSpec("read", "Reads", {"properties": {"line": {"type": "integer"}}, "required": ["line"]})
    history: list[Message] = []
    for number in range(5):
        call = ToolCallPart(id="c", name="read", arguments=f'{{"path": "{number}"}}')
        history += [user(f"Read {number}."), Message(role="assistant", parts=(call,))]
    events = await ask(model, [*history, user("Read 7.")], (tool,), max_output_tokens=60)
    calls = only(events, ToolCallEnd)
    assert calls and calls[0].name == "read", said(events)
    assert "tool_call" not in said(events)
    if events[-1] == Finished(reason="tool_calls"):
        assert isinstance(json.loads(calls[0].arguments)["line"], int)


def with_template(path: Path, change: tuple[str, str], target: Path) -> Path:
    """A copy of a model file with another chat template of the same length."""
    data = path.read_bytes()
    start = data.index(b"{% for message in messages %}")
    size = int.from_bytes(data[start - 8 : start], "little")
    old = data[start : start + size].decode()
    greeting = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    new = old.replace(greeting, "").replace(*change)
    assert new != old and len(new) <= size
    target.write_bytes(data[:start] + new.ljust(size).encode() + data[start + size :])
    return target


async def test_thinking_that_the_template_opens_is_closed_when_it_has_had_its_share(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need_local_model()
    monkeypatch.setattr("whimbrel.engine.gguf.model.THINKING", {"low": 4})
    whole = resolve_file("smollm2", SETTINGS).path
    opens = ("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n")
    path = with_template(whole, opens, tmp_path / "thinks.gguf")
    model = LlamaModel(resolve_file(str(path), SETTINGS))
    try:
        events = await ask(model, [user("Why is the sky blue?")], effort="low", max_output_tokens=20)
    finally:
        await model.close()
    thought = "".join(each.text for each in only(events, ReasoningDelta))
    assert thought.strip() and said(events)
    assert "think>" not in said(events) + thought
    assert only(events, Usage)[0].reasoning_tokens < 15
    assert [each.text for each in only(events, ModelNotice)] == [
        "thinking was ended after 4 tokens (effort low)"
    ]


async def test_an_agent_works_with_it_and_the_session_keeps_what_was_said(
    model: LlamaModel, tmp_path: Path
) -> None:
    forced = LlamaModel(resolve_file("smollm2", SETTINGS), call_first=True)
    async with scene(tmp_path) as stage:
        try:
            agent = stage.make(forced, [Echo()], limits=[MaxSteps(2)])
            outcome = await agent.run([system("Use the tool."), user("Read a.py.")])
        finally:
            await forced.close()
        assert outcome.status == "budget" and outcome.steps == 2
        assert (
            outcome.usage.input_tokens and outcome.usage.output_tokens and not outcome.usage.estimated_tokens
        )
        stored = stage.stored()
        assert [message.role for message in stored] == ["system", "user"] + ["assistant", "tool"] * 2
        called = [call.id for message in stored for call in message.tool_calls()]
        assert len(set(called)) == len(called) and called[0] == "call_2_0"


async def test_leaving_early_stops_the_model_and_the_next_question_is_answered(model: LlamaModel) -> None:
    stream: Any = model.stream([user("Tell a very long story.")], (), max_output_tokens=1500, seed=1)
    async for each in stream:
        if isinstance(each, TextDelta):
            break
    await stream.aclose()
    pid = model.pid
    events = await asyncio.wait_for(ask(model, [user("hi")], max_output_tokens=3), 20)
    assert events[-1] == Finished(reason="length") and model.pid == pid


async def test_a_prompt_that_does_not_fit_is_an_overflow_with_its_numbers(model: LlamaModel) -> None:
    with pytest.raises(RemoteError) as caught:
        await ask(model, [user("word " * 3000)])
    assert caught.value.failure is Failure.CONTEXT_OVERFLOW
    assert "2048" in caught.value.one_line()
    assert (await ask(model, [user("hi")]))[-1] == Finished(reason="length")


async def test_the_end_of_the_process_is_an_error_of_the_model_and_it_is_started_again(
    model: LlamaModel,
) -> None:
    stream = model.stream([user("Tell a long story.")], (), max_output_tokens=1500)
    with pytest.raises(ModelError, match="signal 9") as caught:
        async for each in stream:
            if isinstance(each, TextDelta) and model.pid:
                os.kill(model.pid, signal.SIGKILL)
    assert caught.value.exit_code == 8 and "\n" not in caught.value.one_line()
    assert (await ask(model, [user("hi")], max_output_tokens=2))[-1] == Finished(reason="length")


async def test_a_file_that_only_begins_like_a_model_is_one_line(tmp_path: Path) -> None:
    need_local_model()
    whole = resolve_file("smollm2", SETTINGS).path
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(whole.read_bytes()[: 8 << 20])
    model = load_model(f"llama:{torn}", environ=SETTINGS)
    try:
        with pytest.raises(ModelError) as caught:
            _ = [each async for each in model.stream([user("hi")], ())]
        assert "torn.gguf" in caught.value.one_line() and "\n" not in caught.value.one_line()
        assert model.count_tokens([user("hi")], ()) > 0
    finally:
        await model.close()


def test_settings_that_are_no_numbers_are_refused() -> None:
    need_local_model()
    with pytest.raises(ConfigError, match="WHIMBREL_LLAMA_CONTEXT"):
        resolve_file("smollm2", {"WHIMBREL_LLAMA_CONTEXT": "lots"})
