"""Refusals that teach how an endpoint wants to be asked; each lesson once, and never without end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from whimbrel.engine.chat import user
from whimbrel.engine.remote.failures import Failure, RemoteError

from ...mock_server import Reply, Request, completion, error, reasoning_replayed
from .asking import Conversation, finished_round

FINE = completion(text="fine")


def strict(rule: Callable[[dict[str, Any]], Reply | None]) -> Callable[[Request], Reply]:
    """A server that answers a refusal, or "fine"."""
    return lambda request: rule(request.body) or FINE


def bad(message: str, status: int = 400, **extra: Any) -> Reply:
    return error(status, {"error": {"message": message, **extra}})


def of_the_call(body: dict[str, Any]) -> dict[str, Any]:
    return next(message for message in body["messages"] if message.get("tool_calls"))


def no_null(body: dict[str, Any]) -> Reply | None:
    wrong = "content" in of_the_call(body) and of_the_call(body)["content"] is None
    return bad("messages[1].content: must be a string, got null") if wrong else None


def no_null_nor_empty(body: dict[str, Any]) -> Reply | None:
    wrong = "content" in of_the_call(body) and not of_the_call(body)["content"]
    return bad("The content field must not be empty in assistant messages") if wrong else None


def key_wanted(body: dict[str, Any]) -> Reply | None:
    return None if "content" in of_the_call(body) else bad("messages.1.content: Field required")


def local_server(body: dict[str, Any]) -> Reply | None:
    # As one small server in the field says it: 500, and a page of validation errors.
    text = "7 validation errors: {'type': 'string_type', 'loc': ('body', 'messages', 1, 'content'), 'msg': 'Input should be a valid string', 'input': None}"
    return bad(text, 500) if of_the_call(body).get("content", 0) is None else None


@pytest.mark.parametrize(
    ("rule", "requests", "content"),
    [(no_null, 2, ""), (no_null_nor_empty, 3, "missing"), (key_wanted, 1, None), (local_server, 2, "")],
)
async def test_content_beside_calls_takes_the_form_each_endpoint_accepts(
    rule: Callable[[dict[str, Any]], Reply | None], requests: int, content: str | None
) -> None:
    async with Conversation(strict(rule)) as talk:
        await talk.step(finished_round())
        await talk.step(finished_round())
        assert len(talk.bodies) == requests + 1, "what was learnt holds for the next step"
        assert len(talk.notices) == requests - 1
        assert of_the_call(talk.bodies[-1]).get("content", "missing") == content


async def test_an_endpoint_that_wants_thinking_back_gets_it_although_none_was_thought() -> None:
    async with Conversation([FINE, FINE], validators=[reasoning_replayed("reasoning_content")]) as talk:
        await talk.step(finished_round())
        assert of_the_call(talk.bodies[-1])["reasoning_content"] == ""
        assert len(talk.bodies) == 2 and "reasoning_content" in talk.notices[0]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_an_endpoint_that_takes_no_thinking_in_messages_gets_none(field: str) -> None:
    def rule(body: dict[str, Any]) -> Reply | None:
        found = {"reasoning", "reasoning_content"} & set(of_the_call(body))
        return bad(f"property 'messages.1.{min(found)}' is unsupported") if found else None

    async with Conversation(strict(rule)) as talk:
        history = finished_round(thinking="hm", field=field, source=talk.source)
        await talk.step(history)
        await talk.step(history)
        assert not {"reasoning", "reasoning_content"} & set(of_the_call(talk.bodies[-1]))
        assert len(talk.bodies) <= 4


@pytest.mark.parametrize(
    ("refusal", "then"),
    [
        (bad("Unsupported value: 'reasoning_effort' does not support 'max' with this model. Supported values are: 'low', 'medium', and 'high'.", param="reasoning_effort"), "high"),
        (error(422, {"detail": [{"type": "literal_error", "loc": ["body", "reasoning_effort"], "msg": "Input should be 'none', 'low' or 'medium'"}]}), "medium"),
        (bad("reasoning_effort: invalid value"), "high"),
        (bad("'max'", 500), "high"),
        (bad("unknown field: reasoning_effort"), None),
    ],
)  # fmt: skip
async def test_a_refused_value_is_replaced_by_the_nearest_one_and_a_refused_field_left_out(
    refusal: Reply, then: str | None
) -> None:
    async with Conversation([refusal, FINE, FINE]) as talk:
        await talk.step(effort="max")
        await talk.step(effort="max")
        assert [body.get("reasoning_effort") for body in talk.bodies] == ["max", then, then]
        assert len(talk.notices) == 1


async def test_a_tokenizer_that_knows_no_template_settings_gets_none() -> None:
    refusal = bad("chat_template is not supported for Mistral tokenizers.")
    async with Conversation([refusal, FINE]) as talk:
        await talk.step()
        assert "chat_template_kwargs" not in talk.bodies[1]


async def test_a_refused_effort_inside_an_object_is_replaced_there() -> None:
    refusal = error(400, {"error": {"message": "reasoning.effort must be one of low, medium, high"}})
    async with Conversation([refusal, FINE], "openrouter") as talk:
        await talk.step(effort="max")
        assert [body["reasoning"]["effort"] for body in talk.bodies] == ["xhigh", "high"]


async def test_a_field_that_is_refused_without_a_name_takes_all_that_steers_thinking_with_it() -> None:
    standard = {"model", "messages", "stream", "stream_options", "seed"}

    def rule(body: dict[str, Any]) -> Reply | None:
        return bad("Request contains unknown fields") if set(body) - standard else None

    for prefix in ("sglang", "vllm", "llamacpp", "openrouter"):
        async with Conversation(strict(rule), prefix) as talk:
            await talk.step(seed=1)
            assert len(talk.bodies) == 2 and len(talk.notices) == 1


async def test_a_server_that_refuses_every_field_by_name_is_asked_once_for_each_and_then_plainly() -> None:
    standard = {"model", "messages", "stream"}

    def rule(body: dict[str, Any]) -> Reply | None:
        odd = sorted(set(body) - standard)
        return bad(f"Unrecognized request argument supplied: {odd[0]}") if odd else None

    async with Conversation(strict(rule)) as talk:
        await talk.step(seed=1, max_output_tokens=100)
        assert len(talk.bodies) == len(talk.notices) + 1 <= 8
        assert set(talk.bodies[-1]) == standard


async def test_the_output_limit_is_renamed_or_left_to_the_endpoint() -> None:
    renamed = bad("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens")  # fmt: skip
    async with Conversation([renamed, FINE]) as talk:
        await talk.step(max_output_tokens=500)
        assert talk.bodies[1]["max_completion_tokens"] == 500 and "max_tokens" not in talk.bodies[1]
    large = bad("max_tokens is too large: 16384. This model supports at most 4096 completion tokens")
    vllm = bad("'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 4096 tokens")  # fmt: skip
    for refusal in (large, vllm):
        async with Conversation([refusal, FINE]) as talk:
            await talk.step(max_output_tokens=16_384)
            assert "max_tokens" not in talk.bodies[1]


async def test_an_overflow_tells_the_window_and_is_not_asked_again() -> None:
    full = bad("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens")
    async with Conversation([full, FINE]) as talk:
        with pytest.raises(RemoteError) as caught:
            await talk.step()
        assert caught.value.failure is Failure.CONTEXT_OVERFLOW and talk.model.context_window == 4096
        await talk.step([user("x" * 3000)], max_output_tokens=100_000)
        assert 0 < talk.bodies[1]["max_tokens"] < 4096


async def test_a_server_that_is_never_content_is_given_up_after_few_requests() -> None:
    words = ["content must not be empty", "reasoning_content is missing", "unknown field reasoning", "seed"]

    def never(request: Request) -> Reply:
        return bad(f"unsupported: {words[len(talk.bodies) % len(words)]} {sorted(request.body)}")

    async with Conversation(never) as talk:
        with pytest.raises(RemoteError):
            await talk.step(finished_round(thinking="x", field="reasoning", source=talk.source), seed=1)
        assert len(talk.bodies) < 16


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "Invalid prompt: flagged as potentially violating our usage policy", "code": "invalid_prompt"}}),
        (400, {"error": {"code": "content_filter", "message": "The response was filtered due to the prompt"}}),
        (403, {"error": {"message": "Your chosen model requires moderation and your input was flagged"}}),
        (400, {"error": {"message": "Content Exists Risk: the request was rejected because it was considered high risk"}}),
    ],
)  # fmt: skip
async def test_a_refusal_by_content_rules_is_told_as_that_and_not_asked_again(status: int, body: Any) -> None:
    async with Conversation([error(status, json.dumps(body)), FINE]) as talk:
        with pytest.raises(RemoteError) as caught:
            await talk.step()
        assert caught.value.failure is Failure.REFUSAL and len(talk.bodies) == 1
        assert "content rules" in caught.value.hint
