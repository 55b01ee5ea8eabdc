"""The Messages form: as plain HTTP, and as our own client takes it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from whimbrel.engine.anthropic.client import AnthropicModel
from whimbrel.engine.chat import (
    Finished,
    ImagePart,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    Usage,
    user,
)
from whimbrel.engine.models import load_model
from whimbrel.engine.serve.backend import GenerationEvent, GenerationRequest, StoppedBy, ToolChoice

from .scripted import THOUGHT, call, running, says

TOOL = {"name": "add", "description": "Adds", "input_schema": {"type": "object"}}
PIXEL = "aGVsbG8="


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in response.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {value['type']}"
        found.append(value)
    return found


async def test_a_stream_builds_the_same_message_as_one_piece() -> None:
    script = says(
        THOUGHT, "I ", "add", *call("c1", "add", '{"a"', ": 1}"), *call("c2", "add"), reason="tool_calls"
    )
    async with running(script) as at:
        whole = (await at.message(tools=[TOOL])).json()
        streamed = events_of(await at.message(tools=[TOOL], stream=True))
    assert whole["content"] == [
        {"type": "thinking", "thinking": "let me see", "signature": ""},
        {"type": "text", "text": "I add"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
    ]
    assert whole["stop_reason"] == "tool_use" and whole["role"] == "assistant"
    # What was in the cache is counted apart.
    assert whole["usage"] == {
        "input_tokens": 6,
        "output_tokens": 7,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
    }
    assert streamed[0]["message"]["usage"] == {**whole["usage"], "output_tokens": 0}
    blocks: list[dict[str, Any]] = []
    for event in streamed[1:-2]:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            name = delta["type"].removesuffix("_delta")
            if name == "input_json":
                block["json"] += delta["partial_json"]
            else:
                block[name] += delta[name]
        else:
            block = blocks[event["index"]]
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
    assert blocks == whole["content"]
    assert streamed[-2]["delta"]["stop_reason"] == "tool_use" and streamed[-2]["usage"] == whole["usage"]
    assert streamed[-1] == {"type": "message_stop"}


@pytest.mark.parametrize(
    ("extra", "reason", "expected"),
    [
        ((), "stop", ("end_turn", None)),
        ((StoppedBy("END"),), "stop", ("stop_sequence", "END")),
        ((), "length", ("max_tokens", None)),
        ((), "content_filter", ("refusal", None)),
    ],
)
async def test_the_reason_of_the_end_is_told_in_its_words(extra: Any, reason: Any, expected: Any) -> None:
    async with running(says("hi", *extra, reason=reason)) as at:
        answer = (await at.message()).json()
    assert (answer["stop_reason"], answer["stop_sequence"]) == expected


async def test_a_conversation_reaches_the_backend_block_by_block() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    messages: Any = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "add", "cache_control": {"type": "ephemeral"}}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "2"}, image],
                },
                {"type": "text", "text": "go on"},
            ],
        },
    ]
    async with running(says("ok")) as at:
        response = await at.message(
            messages=messages,
            system=[{"type": "text", "text": "be brief"}],
            tools=[TOOL],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            thinking={"type": "enabled", "budget_tokens": 20},
            output_config={"effort": "medium"},
            stop_sequences=["END"],
            metadata={"user_id": "x"},
        )
        assert response.status_code == 200
        (request,) = at.backend.requests
        counted = await at.message(
            "/v1/messages/count_tokens", messages=messages, tools=[TOOL], max_tokens=None
        )
    assert counted.json() == {"input_tokens": 401}
    system, first, thought, results, more = request.messages
    assert (system.role, system.text(), first.text()) == ("system", "be brief", "add")
    assert thought.parts == (
        ReasoningPart(text="hm", field="thinking"),
        ToolCallPart(id="t1", name="add", arguments='{"a": 1}'),
    )
    assert results.parts == (ToolResultPart(call_id="t1", name="add", text="2"),)
    assert more.parts == (ImagePart(media_type="image/png", data_base64=PIXEL), TextPart(text="go on"))
    assert request.tool_choice == ToolChoice("required") and not request.parallel_tool_calls
    assert (request.thinking, request.thinking_budget, request.effort) == (True, 20, "high")
    assert request.sampling.stop == ("END",)


async def test_errors_have_the_form_of_this_api_before_and_inside_of_a_stream() -> None:
    async def broken(request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        if request.messages[-1].text() == "late":
            yield TextDelta(text="half")
        raise ZeroDivisionError

    async with running(broken) as at:
        early = await at.message()
        late = events_of(await at.message(messages=[{"role": "user", "content": "late"}], stream=True))
        unknown = await at.message(model="no")
        missing = await at.message(max_tokens=None)
    assert early.status_code == 500 and early.json()["error"]["type"] == "api_error"
    assert early.json()["request_id"] == early.headers["request-id"]
    assert [each["type"] for each in late[-2:]] == ["content_block_delta", "error"]
    assert late[-1]["error"]["type"] == "api_error"
    assert unknown.status_code == 404 and unknown.json()["error"]["type"] == "not_found_error"
    assert missing.status_code == 400 and missing.json()["error"]["message"] == "max_tokens is missing"


@pytest.mark.parametrize("kind", ["anthropic", "vllm", "openai"])
async def test_our_own_clients_find_nothing_to_object_to(kind: str) -> None:
    script = says(THOUGHT, "I add", *call("c1", "add", '{"a": 1}'), reason="tool_calls")
    async with running(script) as at:
        address = at.url if kind == "anthropic" else f"{at.url}/v1"
        model = load_model(
            f"{kind}:tiny@{at.url}/v1" if kind == "anthropic" else f"{kind}:tiny@{address}", environ={}
        )
        try:
            tools = [ToolSpec("add", "Adds", {"type": "object", "properties": {}})]
            events = [each async for each in model.stream([user("hi")], tools, effort="low")]
        finally:
            await model.close()
        requests = at.backend.requests
    # One request: nothing was refused and asked once more.
    assert len(requests) == 1 and requests[0].tools[0].name == "add"
    assert isinstance(model, AnthropicModel) == (kind == "anthropic")
    thoughts = [each.text for each in events if isinstance(each, ReasoningDelta)]
    assert "".join(thoughts) == "let me see"
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "I add"
    assert [each.arguments for each in events if isinstance(each, ToolCallEnd)] == ['{"a": 1}']
    (usage,) = (each for each in events if isinstance(each, Usage))
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (10, 7, 4)
    assert events[-1] == Finished(reason="tool_calls")
    assert requests[0].thinking is True or kind == "openai"
    assert requests[0].effort == "low" or kind == "anthropic"
