"""What the official ``openai`` client gets from the server, and what the backend gets from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from whimbrel.engine.chat import (
    ImagePart,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from whimbrel.engine.serve.backend import (
    GenerationEvent,
    GenerationRequest,
    OutOfOrder,
    PromptTooLong,
    Structure,
    TokenChance,
    TokenLogprobs,
    ToolChoice,
)

from .scripted import THOUGHT, Running, Script, Scripted, call, running, says, until

HELLO: Any = [{"role": "user", "content": "hello"}]
ADD: Any = {
    "type": "function",
    "function": {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {}}},
}
PIXEL = "aGVsbG8="


@asynccontextmanager
async def asking(script: Script | Scripted) -> AsyncIterator[tuple[openai.AsyncOpenAI, Running]]:
    async with running(script) as at:
        yield (
            openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="none", max_retries=0, http_client=at.http),
            at,
        )


async def test_a_streamed_answer_is_the_whole_answer_in_pieces() -> None:
    script = says(
        THOUGHT, "Grüße ", "🐦", *call("c1", "add", '{"a"', ": 1}"), *call("c2", "add"), reason="tool_calls"
    )
    async with asking(script) as (client, _):
        whole = await client.chat.completions.create(model="tiny", messages=HELLO, tools=[ADD])
        stream = await client.chat.completions.create(
            model="tiny", messages=HELLO, tools=[ADD], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    message = whole.choices[0].message
    assert message.content == "Grüße 🐦" and message.model_extra == {"reasoning_content": "let me see"}
    calls = [(each.id, each.function.name, each.function.arguments) for each in message.tool_calls or ()]  # pyright: ignore
    assert calls == [("c1", "add", '{"a": 1}'), ("c2", "add", "{}")]
    assert whole.choices[0].finish_reason == "tool_calls"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert whole.usage and whole.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert deltas[0].role == "assistant"
    assert "".join(each.content or "" for each in deltas) == message.content
    assert "".join((each.model_extra or {}).get("reasoning_content", "") for each in deltas) == "let me see"
    pieces: dict[int, list[str]] = {}
    for part in (part for each in deltas for part in each.tool_calls or ()):
        assert part.function
        # The id and the name come with the first piece, and with no other.
        assert (part.id is not None) == (part.index not in pieces) == (part.function.name is not None)
        pieces.setdefault(part.index, []).append(part.function.arguments or "")
    assert ["".join(each) for each in pieces.values()] == ['{"a": 1}', "{}"]
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1] if chunk.choices[0].finish_reason] == [
        "tool_calls"
    ]
    assert len({chunk.id for chunk in chunks}) == 1


async def test_counts_that_the_backend_does_not_know_are_left_out() -> None:
    async with asking(says("hi", cached=None)) as (client, _):
        answer = await client.chat.completions.create(model="alias", messages=HELLO)
    assert answer.usage and answer.usage.prompt_tokens_details is None and answer.model == "alias"


async def test_log_probabilities_come_with_their_text() -> None:
    chances = [TokenChance("h", -0.5, b"h"), TokenChance("\ufffd", float("-inf"), b"\xf0\x9f")]
    script = says(TokenLogprobs(chances[0], tuple(chances)), "h", TokenLogprobs(chances[1]))
    values: Any = {"model": "tiny", "messages": HELLO, "logprobs": True, "top_logprobs": 2}
    async with asking(script) as (client, at):
        whole = await client.chat.completions.create(**values)
        chunks = [chunk async for chunk in await client.chat.completions.create(**values, stream=True)]
        plain = await client.chat.completions.create(model="tiny", messages=HELLO)
        assert at.backend.requests[0].top_logprobs == 2 and at.backend.requests[2].top_logprobs is None
    assert whole.choices[0].logprobs and plain.choices[0].logprobs is None
    first, second = whole.choices[0].logprobs.content or ()
    assert (first.token, first.logprob, first.bytes, len(first.top_logprobs)) == ("h", -0.5, [104], 2)
    assert second.logprob == -9999.0 and second.bytes == [0xF0, 0x9F]
    streamed = [
        each for chunk in chunks if (given := chunk.choices[0].logprobs) for each in given.content or ()
    ]
    assert streamed == [first, second]


async def test_a_schema_reaches_the_backend_and_its_answer_is_parsed() -> None:
    class Colour(BaseModel):
        name: str

    async with asking(says('{"name": "teal"}')) as (client, at):
        parsed = await client.chat.completions.parse(model="tiny", messages=HELLO, response_format=Colour)
        await client.chat.completions.create(
            model="tiny", messages=HELLO, response_format={"type": "json_object"}
        )
        extra = {"structured_outputs": {"choice": ["yes", "no"]}}
        await client.chat.completions.create(model="tiny", messages=HELLO, extra_body=extra)
        structures = [request.structure for request in at.backend.requests]
    assert parsed.choices[0].message.parsed == Colour(name="teal")
    assert structures[0] and structures[0].value["required"] == ["name"]
    assert structures[1:] == [Structure("json_object"), Structure("choice", ("yes", "no"))]


async def test_a_conversation_reaches_the_backend_part_by_part() -> None:
    messages: Any = [
        {"role": "developer", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning": "",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "sub", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}]},
    ]
    async with asking(says("ok")) as (client, at):
        await client.chat.completions.create(
            model="tiny",
            messages=messages,
            tools=[ADD],
            tool_choice={"type": "function", "function": {"name": "add"}},
            parallel_tool_calls=False,
            temperature=0,
            stop="END",
            seed=7,
            max_tokens=5,
            max_completion_tokens=9,
            user="someone",
            extra_body={
                "top_k": -1,
                "chat_template_kwargs": {"enable_thinking": True, "thinking_effort": "low", "keep": 1},
                "thinking_token_budget": 64,
            },
        )
        (request,) = at.backend.requests
    system, said, thought, results = request.messages
    assert system.role == "system" and said.parts == (
        TextPart(text="look"),
        ImagePart(media_type="image/png", data_base64=PIXEL),
    )
    assert thought.parts == (
        ReasoningPart(text="", field="reasoning"),
        ToolCallPart(id="a", name="add", arguments="{}"),
        ToolCallPart(id="b", name="sub", arguments="{}"),
    )
    assert results.role == "tool" and results.parts == (
        ToolResultPart(call_id="b", name="sub", text="2"),
        ToolResultPart(call_id="a", name="add", text="1"),
    )
    assert request.tool_choice == ToolChoice("named", "add") and not request.parallel_tool_calls
    assert request.tools[0].name == "add" and request.max_tokens == 9
    sampling = request.sampling
    assert (sampling.temperature, sampling.stop, sampling.seed, sampling.top_k) == (0, ("END",), 7, 0)
    assert (request.thinking, request.effort, request.thinking_budget) == (True, "low", 64)
    assert request.template == {"keep": 1}


@pytest.mark.parametrize(
    ("fields", "effort", "thinking", "budget"),
    [
        ({}, None, None, None),
        ({"reasoning_effort": "medium"}, "high", None, None),
        ({"reasoning_effort": "xhigh"}, "max", None, None),
        ({"reasoning_effort": "none"}, None, False, None),
        ({"thinking": {"type": "disabled"}}, None, False, None),
        ({"thinking_budget": "low"}, "low", None, None),
        ({"thinking_budget": 12}, None, None, 12),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "low", None, None),
        ({"reasoning": {"enabled": False}}, None, False, None),
        ({"reasoning": {"max_tokens": 9, "exclude": False}}, None, None, 9),
        ({"chat_template_kwargs": {"thinking": False}}, None, False, None),
    ],
)
async def test_every_way_to_ask_for_thinking_is_understood(
    fields: Any, effort: Any, thinking: Any, budget: Any
) -> None:
    async with running(says("ok")) as at:
        assert (await at.chat(**fields)).status_code == 200
        (request,) = at.backend.requests
    assert (request.effort, request.thinking, request.thinking_budget) == (effort, thinking, budget)


NEUTRAL: dict[str, Any] = {
    "user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "n": 1,
    "prediction": {"type": "content", "content": "x"}, "parallel_tool_calls": True, "modalities": ["text"],
    "verbosity": "medium", "best_of": 1, "use_beam_search": False, "length_penalty": 1.0, "ignore_eos": False,
    "min_tokens": 0, "skip_special_tokens": True, "echo": False, "include_reasoning": True, "stop": None,
    "stop_token_ids": [], "add_generation_prompt": True, "cache_prompt": True, "request_id": "r",
    "priority": 3, "tools": [], "functions": None, "logit_bias": {}, "max_tokens": -1,
    "stream_options": {"include_usage": True, "continuous_usage_stats": False},
}  # fmt: skip


async def test_what_clients_send_by_default_asks_for_nothing_and_is_taken() -> None:
    async with running(says("ok")) as at:
        for name, value in NEUTRAL.items():
            assert (await at.chat(**{name: value})).status_code == 200, name
        for request in at.backend.requests:
            assert replace(request, id="") == replace(at.backend.requests[0], id=""), "it changes nothing"
        for name, value in {
            "ignore_eos": True, "min_tokens": 5, "best_of": 2, "echo": True, "modalities": ["audio"],
            "length_penalty": True, "verbosity": "low", "stream_options": {"continuous_usage_stats": True},
            "reasoning": {"exclude": True}, "max_tokens": 0,
        }.items():  # fmt: skip
            refused = await at.chat(**{name: value})
            assert refused.status_code == 400, name
            assert refused.json()["error"]["param"].startswith(name)


async def test_an_answer_that_was_cut_short_comes_back_with_empty_content() -> None:
    cut = {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": None}
    messages = [{"role": "user", "content": "a"}, cut, {"role": "user", "content": "b"}]
    async with running(says("ok")) as at:
        assert (await at.chat(messages=messages)).status_code == 200
        missing = await at.chat(messages=[{"role": "user", "content": "a"}, {"role": "assistant"}])
    assert missing.status_code == 400 and "content is missing" in missing.json()["error"]["message"]
    assert [message.text() for message in at.backend.requests[0].messages] == ["a", "", "b"]


async def test_a_model_that_is_gone_is_told_to_clients_and_to_who_asks_for_its_health() -> None:
    async def gone(_: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        yield TextDelta(text="begun")
        at.backend.ill = "process 1 of 2 of the model is gone"
        raise OutOfOrder

    async with running(gone) as at:
        assert (await at.http.get("/health")).status_code == 200
        for stream in (True, False):
            at.backend.ill = ""
            cut = await at.chat(stream=stream)
            assert "model_failed" in cut.text and "others are not affected" not in cut.text
            assert cut.status_code == (200 if stream else 503)
        asked = len(at.backend.requests)
        refused = await at.chat()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_failed")
        assert len(at.backend.requests) == asked, "nobody waits for a model that is gone"
        for path in ("/health", "/ready"):
            health = await at.http.get(path)
            assert health.status_code == 503 and "process 1 of 2" in health.text
        at.backend.ill = ""
        assert (await at.http.get("/health")).status_code == 200


async def test_closing_a_stream_ends_its_generation_at_once() -> None:
    async def endless(_: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        while True:
            yield TextDelta(text="la ")
            await asyncio.sleep(0.001)

    async with asking(endless) as (client, at):
        stream = await client.chat.completions.create(model="tiny", messages=HELLO, stream=True)
        async for _ in stream:
            break
        assert at.backend.running == 1
        await stream.close()
        await until(lambda: at.backend.running == 0)
        assert at.backend.cut == 1
        await until(lambda: at.server.admission.running == 0)
        assert (await at.metrics())["whimbrel_requests_aborted_total"] == 1


async def test_a_failure_ends_its_own_request_and_no_other() -> None:
    async def fragile(request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        text = request.messages[-1].text()
        if text == "late":
            yield TextDelta(text="half an ")
        if text != "fine":
            raise ZeroDivisionError("secret inside")
        async for event in says("fine")(request):
            yield event

    def ask(client: openai.AsyncOpenAI, text: str, **values: Any) -> Any:
        return client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": text}], **values
        )

    async with asking(fragile) as (client, at):
        with pytest.raises(openai.InternalServerError) as early:
            await ask(client, "early")
        assert early.value.response.headers["x-request-id"] and "secret" not in early.value.response.text
        assert early.value.type == "server_error"
        got: list[str] = []
        with pytest.raises(openai.APIError, match="failed on this request"):
            async for chunk in await ask(client, "late", stream=True):
                got.append(chunk.choices[0].delta.content or "")
        assert "".join(got) == "half an "
        good = await ask(client, "fine")
        assert good.choices[0].message.content == "fine"
        figures = await at.metrics()
    assert figures["whimbrel_stream_errors_total"] == 1
    assert figures['whimbrel_requests_total{path="/v1/chat/completions",status="500"}'] == 1


async def test_a_prompt_over_the_window_is_refused_with_the_numbers_also_in_a_stream() -> None:
    async def long(_: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        raise PromptTooLong(1200, 1000)
        yield Usage()

    async with asking(long) as (client, _):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as error:
                await client.chat.completions.create(model="tiny", messages=HELLO, stream=stream)
            assert error.value.code == "context_length_exceeded"
            assert "1000" in error.value.message and "1200" in error.value.message


async def test_the_lists_name_the_models_and_an_unknown_one_is_not_found() -> None:
    async with asking(says("ok")) as (client, at):
        assert [model.id async for model in client.models.list()] == ["tiny", "alias"]
        assert (await client.models.retrieve("tiny")).model_extra["max_model_len"] == 1000  # pyright: ignore
        for asked in (
            client.models.retrieve("no/such"),
            client.chat.completions.create(model="no", messages=HELLO),
        ):
            with pytest.raises(openai.NotFoundError) as error:
                await asked
            assert error.value.code == "model_not_found"
        assert json.loads((await at.http.get("/version")).text)["version"] == "1.2.3"
        at.backend.ill = "its process has died"
        health = await at.http.get("/health")
        assert health.status_code == 503 and health.json() == {"status": "its process has died"}
