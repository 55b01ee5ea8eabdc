"""The Messages API over real HTTP: what comes in, what goes back, and what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from whimbrel.engine.anthropic.client import AnthropicModel
from whimbrel.engine.anthropic.endpoint import resolve_anthropic
from whimbrel.engine.chat import (
    Effort,
    Finished,
    ImagePart,
    Message,
    ModelNotice,
    OpaquePart,
    Part,
    ReasoningDelta,
    ReasoningPart,
    StepDiscarded,
    StreamEvent,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    Usage,
    system,
    user,
)
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.failures import Failure, RemoteError
from whimbrel.sandbox.base.errors import ConfigError

from ...anthropic_mock import SIGNATURE, answer, begin, block, call, end, event, model_of, refusal, strict
from ...anthropic_mock import text as said
from ...anthropic_mock import thinking as thought
from ...mock_server import CUT, MockServer, Pause, Reply, Request

pytestmark = pytest.mark.timeout(60)

TOOL = ToolSpec("read", "reads", {"type": "object", "properties": {"path": {"type": "string"}}})
IMAGE = ImagePart(media_type="image/png", data_base64="iVBORw0KGgo=")


async def no_wait(_seconds: float) -> None:
    """Time is not waited for."""


def at(server: MockServer, url: str = "") -> AnthropicModel:
    return AnthropicModel(resolve_anthropic("scripted", url or server.url, {}), sleep=no_wait)


async def play(
    *replies: Reply,
    history: Sequence[Message] = (),
    tools: Sequence[ToolSpec] = (TOOL,),
    effort: Effort = "high",
    limit: int | None = None,
) -> tuple[list[StreamEvent], list[Request]]:
    with MockServer(replies, validators=[strict]) as server:
        model = at(server)
        try:
            stream = model.stream(
                history or [user("hi")], tools, effort=effort, max_output_tokens=limit, seed=1
            )
            return [each async for each in stream], server.requests
        finally:
            await model.close()
            assert server.script_errors == []


def joined(events: Sequence[StreamEvent], kind: Any) -> str:
    return "".join(each.text for each in events if isinstance(each, kind))


def only(events: Sequence[StreamEvent], kind: Any) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


async def sent(*history: Message, tools: Sequence[ToolSpec] = ()) -> dict[str, Any]:
    """The body that a strict server accepted for this history."""
    _, requests = await play(answer(said(0, "ok")), history=history, tools=tools)
    return requests[0].body


def assistant(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def result(call_id: str, text: str, *more: Part) -> Message:
    return Message(role="tool", parts=(ToolResultPart(call_id=call_id, name="read", text=text), *more))


def calling(*ids: str) -> Message:
    return assistant(*(ToolCallPart(id=each, name="read", arguments='{"path":"a"}') for each in ids))


# ------------------------------------------------------------------ what comes in


async def test_thinking_text_and_calls_arrive_in_order_with_usage_that_counts_cached_input() -> None:
    reply = Reply(
        pieces=[
            begin(input_tokens=5, cache_read_input_tokens=90, cache_creation_input_tokens=7, output_tokens=1),
            thought(0, "let me see"),
            said(1, "Reading both files."),
            call(2, "toolu_1", "read", {"path": "héllo \U0001f427"}),
            call(3, "toolu_2", "read", ""),
            end("tool_use", 33),
        ]
    )
    events, _ = await play(reply)
    assert joined(events, ReasoningDelta) == "let me see"
    assert joined(events, TextDelta) == "Reading both files."
    calls = [(each.id, json.loads(each.arguments)) for each in only(events, ToolCallEnd)]
    assert calls == [("toolu_1", {"path": "héllo \U0001f427"}), ("toolu_2", {})]
    (usage,) = only(events, Usage)
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (102, 90, 7)
    assert usage.output_tokens == 33 and usage.reasoning_tokens is None
    assert events[-1] == Finished(reason="tool_calls")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "unknown"),
    ],
)
async def test_stop_reasons(reason: str, expected: str) -> None:
    events, _ = await play(answer(said(0, "so"), reason=reason))
    assert events[-1] == Finished(reason=expected)  # pyright: ignore[reportArgumentType]


async def test_an_answer_in_one_piece_from_a_server_that_does_not_stream_is_read_too() -> None:
    content = [
        {"type": "text", "text": "here"},
        {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "x"}},
    ]
    body = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    events, _ = await play(Reply(pieces=[json.dumps(body).encode()], headers={}))
    assert joined(events, TextDelta) == "here"
    assert [json.loads(each.arguments) for each in only(events, ToolCallEnd)] == [{"path": "x"}]
    assert only(events, Usage)[0].input_tokens == 3 and only(events, Usage)[0].output_tokens is None


async def test_a_paused_turn_is_sent_back_and_continued_as_one_step() -> None:
    searching = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    first = answer(
        said(0, "Looking. "),
        block(1, searching, [{"type": "input_json_delta", "partial_json": '{"query":"x"}'}]),
        reason="pause_turn",
    )
    with MockServer([first, answer(said(0, "Found."))]) as server:
        model = at(server)
        events = [each async for each in model.stream([user("hi")], ())]
        await model.close()
    assert joined(events, TextDelta) == "Looking. Found."
    back = server.requests[1].messages[-1]
    assert back["role"] == "assistant"
    assert back["content"][1] == {**searching, "input": {"query": "x"}}
    assert [each.reason for each in only(events, Finished)] == ["stop"]
    assert [(each.input_tokens, each.output_tokens) for each in only(events, Usage)] == [(20, 40)]


# ------------------------------------------------------------------ what goes back


async def test_thinking_goes_back_verbatim_with_its_signature_and_hidden_thinking_untouched() -> None:
    hidden = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3="}
    replies = [
        answer(
            thought(0, " two\nlines "),
            block(1, hidden),
            thought(2, "", "second+/="),
            call(3, "toolu_1", "read", {"path": "a"}),
            reason="tool_use",
        ),
        answer(said(0, "done")),
    ]
    from whimbrel.app.agent.history import StepBuilder

    with MockServer(replies, validators=[strict]) as server:
        model = load_model(model_of(server), environ={})
        builder = StepBuilder()
        async for each in model.stream([user("hi")], (TOOL,)):
            builder.feed(each)
        # As a session stores it and reads it back.
        kept = Message.model_validate_json(builder.message().model_dump_json())
        history = [user("hi"), kept, result("toolu_1", "content")]
        _ = [each async for each in model.stream(history, (TOOL,))]
        await model.close()
    assert server.requests[1].messages[1]["content"] == [
        {"type": "thinking", "thinking": " two\nlines ", "signature": SIGNATURE},
        hidden,
        {"type": "thinking", "thinking": "", "signature": "second+/="},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
    ]
    assert server.requests[1].body["thinking"]["type"] == "enabled"


async def test_thinking_of_other_providers_stays_behind() -> None:
    foreign = OpaquePart(provider="openai@elsewhere", payload={"reasoning_details": [1]})
    other = OpaquePart(provider="anthropic@elsewhere", payload={"type": "thinking", "signature": "s"})
    body = await sent(
        user("hi"),
        assistant(ReasoningPart(text="secret plan"), foreign, other, TextPart(text="yes")),
        user("go on"),
    )
    assert body["messages"][1]["content"] == [{"type": "text", "text": "yes"}]


async def test_with_thinking_switched_off_neither_is_it_asked_for_nor_sent() -> None:
    own = OpaquePart(provider="", payload={"type": "thinking", "signature": "s"})
    with MockServer([answer(said(0, "ok"))], validators=[strict]) as server:
        endpoint = resolve_anthropic("scripted", server.url, {"WHIMBREL_THINKING": "off"})
        own = own.model_copy(update={"provider": endpoint.provider})
        model = AnthropicModel(endpoint)
        history = [user("hi"), assistant(ReasoningPart(text="hm", field="thinking"), own), user("go on")]
        _ = [each async for each in model.stream(history, ())]
        await model.close()
    assert "thinking" not in json.dumps(server.requests[0].body)


async def test_thinking_is_off_while_calls_of_another_models_turn_are_answered() -> None:
    events, requests = await play(
        answer(said(0, "ok")), history=[user("hi"), calling("a"), result("a", "content")]
    )
    assert "thinking" not in requests[0].body
    assert "another model's turn" in only(events, ModelNotice)[0].text


async def test_every_call_is_answered_first_and_in_order_whatever_the_history_looks_like() -> None:
    body = await sent(
        system("be brief"),
        result("gone", "an orphan"),
        user("hi"),
        calling("functions.read:0", "functions.read:1", "c"),
        user("wait, stop"),
        result("functions.read:1", "second"),
        Message(role="user", parts=(TextPart(text="look"), IMAGE)),
        result("functions.read:0", "first"),
        result("functions.read:0", "first again"),
        calling("functions.read:0"),
        calling("d"),
    )
    assert body["system"][0]["text"] == "be brief"
    answers = body["messages"][2]["content"]
    assert [each["type"] for each in answers] == ["tool_result"] * 3 + ["text", "text", "image"]
    assert [each["content"][0]["text"] for each in answers[:2]] == ["first", "second"]
    assert answers[2]["is_error"] and "no result" in answers[2]["content"][0]["text"]
    assert [each["role"] for each in body["messages"]] == ["user", "assistant"] * 3 + ["user"]
    assert body["messages"][3]["content"][0]["id"] == "functions_read_0_2"


async def test_an_image_beside_a_result_goes_into_it_and_a_users_image_stays_the_users() -> None:
    body = await sent(
        Message(role="user", parts=(IMAGE, TextPart(text="what is it?"))),
        calling("a"),
        result("a", "", IMAGE),
    )
    picture = {"type": "base64", "media_type": "image/png", "data": IMAGE.data_base64}
    assert body["messages"][0]["content"][0] == {"type": "image", "source": picture}
    (answered,) = body["messages"][2]["content"]
    assert [each["type"] for each in answered["content"]] == ["text", "image"]


async def test_broken_arguments_lone_surrogates_and_blank_text_become_something_the_server_takes() -> None:
    broken = assistant(TextPart(text=" \n"), ToolCallPart(id="", name="read", arguments='{"path": '))
    body = await sent(user("cut \ud83d here"), broken, result("", " "), assistant(TextPart(text="bye")))
    assert body["messages"][1]["content"] == [{"type": "tool_use", "id": "call", "name": "read", "input": {}}]
    assert body["messages"][0]["content"][0]["text"] == "cut ? here"
    assert body["messages"][-1]["role"] == "user"


async def test_the_stable_prefix_is_marked_for_the_cache_and_stays_the_same_bytes() -> None:
    tools = (TOOL, ToolSpec("any", "x", {"anyOf": [{"type": "object"}, {"type": "null"}]}))
    first = await sent(system("rules"), user("one"), tools=tools)
    second = await sent(
        system("rules"), user("one"), assistant(TextPart(text="two")), user("three"), tools=tools
    )
    marked = {"cache_control": {"type": "ephemeral"}}
    assert first["system"][-1].items() >= marked.items() and first["tools"][-1].items() >= marked.items()
    assert "cache_control" not in first["tools"][0]
    assert (first["system"], first["tools"]) == (second["system"], second["tools"])
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"][-1].items() >= marked.items()


@pytest.mark.parametrize(
    ("effort", "limit", "budget", "most"),
    [
        ("low", None, 1024, 9024),
        ("high", None, 8000, 16000),
        ("max", None, 24000, 32000),
        ("max", 4096, 2048, 4096),
        ("high", 1500, None, 1500),
    ],
)
async def test_tiers_are_thinking_budgets_below_the_limit_of_the_answer(
    effort: Effort, limit: int | None, budget: int | None, most: int
) -> None:
    _, requests = await play(answer(said(0, "ok")), effort=effort, limit=limit)
    body = requests[0].body
    assert body["max_tokens"] == most
    assert body.get("thinking") == (budget and {"type": "enabled", "budget_tokens": budget})


# ------------------------------------------------------------------ refusals and failures


@pytest.mark.parametrize(
    ("message", "gone", "changed"),
    [
        ("max_tokens: 16000 > 8192, which is the maximum", "", {"max_tokens": 8192}),
        ("thinking: adaptive thinking is not supported on this model", "thinking", {}),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", "thinking", {}),
        (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort"',
            "",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        ("system.0.cache_control: Extra inputs are not permitted", "cache_control", {}),
    ],
)
async def test_what_a_model_does_not_take_is_changed_once_and_told(
    message: str, gone: str, changed: dict[str, Any]
) -> None:
    events, requests = await play(
        refusal(400, "invalid_request_error", message),
        answer(said(0, "ok")),
        history=[system("rules"), user("hi")],
    )
    assert joined(events, TextDelta) == "ok" and len(only(events, ModelNotice)) == 1
    body = requests[1].body
    assert body.items() >= changed.items()
    assert not gone or f'"{gone}"' not in json.dumps(body)


async def test_a_refusal_that_no_change_cures_ends_the_step() -> None:
    again = refusal(400, "invalid_request_error", "thinking: no")
    with pytest.raises(RemoteError) as caught:
        await play(again, again)
    assert caught.value.failure is Failure.BAD_REQUEST


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (refusal(401, "authentication_error", "invalid x-api-key"), Failure.AUTH),
        (refusal(404, "not_found_error", "model: claude-nope"), Failure.BAD_REQUEST),
        (
            refusal(400, "invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"),
            Failure.CONTEXT_OVERFLOW,
        ),
        (
            refusal(
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 199000 + 16000 > 200000",
            ),
            Failure.CONTEXT_OVERFLOW,
        ),
        (refusal(413, "request_too_large", "Request exceeds the maximum size"), Failure.CONTEXT_OVERFLOW),
        (refusal(400, "invalid_request_error", "Your credit balance is too low"), Failure.QUOTA),
    ],
)
async def test_failures_that_waiting_does_not_cure(reply: Reply, failure: Failure) -> None:
    with pytest.raises(RemoteError) as caught:
        await play(reply)
    assert caught.value.failure is failure and "\n" not in caught.value.one_line()


@pytest.mark.parametrize(
    "reply",
    [
        refusal(529, "overloaded_error", "Overloaded"),
        refusal(429, "rate_limit_error", "slow down", retry_after="2"),
        Reply(pieces=[begin(), event("error", error={"type": "overloaded_error", "message": "Overloaded"})]),
        Reply(pieces=[begin(), said(0, "half an ans"), CUT]),
        Reply(pieces=[begin(), said(0, "half an answer")]),
        Reply(pieces=[begin(), event("error", error={"type": "api_error", "message": "Internal error"})]),
    ],
    ids=["529", "429", "overloaded inside", "cut", "ended early", "server error inside"],
)
async def test_failures_that_pass_are_tried_again_and_the_first_try_is_void(reply: Reply) -> None:
    events, requests = await play(reply, answer(said(0, "whole")))
    assert len(requests) == 2
    start = max((n for n, each in enumerate(events) if isinstance(each, StepDiscarded)), default=0)
    assert joined(events[start:], TextDelta) == "whole"
    assert joined(events, TextDelta) in ("whole", "half an answhole", "half an answerwhole")


async def test_leaving_the_stream_early_closes_the_connection() -> None:
    held = threading.Event()
    with MockServer([Reply(pieces=[begin(), said(0, "one"), Pause(held), end()])]) as server:
        model = at(server)
        stream: Any = model.stream([user("hi")], ())
        async for each in stream:
            if isinstance(each, TextDelta):
                break
        await stream.aclose()
        await model.close()
        held.set()


# ------------------------------------------------------------------ address and key


async def test_the_key_goes_into_its_header_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-canary")
    with MockServer([refusal(401, "authentication_error", "bad key sk-ant-canary")]) as server:
        model = load_model(model_of(server))
        with pytest.raises(RemoteError) as caught:
            _ = [each async for each in model.stream([user("hi")], ())]
        await model.close()
    (request,) = server.requests
    assert request.headers["x-api-key"] == "sk-ant-canary" and "authorization" not in request.headers
    assert "canary" not in caught.value.one_line() and "canary" not in json.dumps(request.body)


def test_addresses_and_the_missing_key() -> None:
    with pytest.raises(ConfigError) as caught:
        load_model("anthropic:claude", environ={})
    assert "ANTHROPIC_API_KEY" in caught.value.hint
    model = load_model("anthropic:claude", environ={"ANTHROPIC_API_KEY": "k"})
    assert model.name == "anthropic:claude" and model.context_window == 200_000
    with pytest.raises(ConfigError, match="plain HTTP"):
        load_model("anthropic:m@http://elsewhere.example", environ={})
