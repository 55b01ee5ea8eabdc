"""What a probe finds out, each time against a whole server with habits of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from whimbrel.engine.remote.endpoint import resolve
from whimbrel.engine.remote.failures import Failure, RemoteError
from whimbrel.engine.remote.listing import list_models, look
from whimbrel.engine.remote.probe import probe
from whimbrel.engine.remote.profile import FACTS, Profile
from whimbrel.engine.remote.transport import Transport

from ...mock_server import MockServer, Pause, Reply, Request, completion
from .servers import LIST, able, poor


async def probed(
    script: Callable[[Request], Reply],
    prefix: str = "vllm",
    name: str = "big",
    seconds: float = 60.0,
    **documents: Any,
) -> tuple[Profile, MockServer]:
    listed = {"/v1/models": LIST} | {path.replace("_", "/"): value for path, value in documents.items()}
    with MockServer(script, documents=listed) as server:
        transport = Transport(resolve(prefix, name, server.url, {}), timeout_s=20.0)
        try:
            return await probe(transport, seconds=seconds), server
        finally:
            await transport.close()


async def test_an_able_server_is_found_out_fact_by_fact() -> None:
    profile, server = await probed(able)
    assert {name: profile.value(name) for name in FACTS} == {
        "context_window": 40_960,
        "reasoning_field": "reasoning",
        "reasoning_input": "reasoning",
        "reasoning_returned": "required",
        "empty_content": None,
        "tools": True,
        "parallel_tools": True,
        "images": True,
        "structured_output": True,
        "effort": True,
        "thinking_budget": True,
        "thinking_token_budget": True,
        "usage": True,
        "cached_tokens": False,
    }
    assert all(profile.facts[name].how for name in FACTS) and profile.complete
    assert len(server.requests) <= 14
    assert all(request.body["max_tokens"] <= 1400 for request in server.requests)


async def test_a_poor_server_is_no_error_and_each_no_has_its_reason() -> None:
    profile, server = await probed(poor, "vllm", "small")
    assert {name: profile.value(name) for name in ("tools", "parallel_tools", "images", "structured_output", "effort", "usage", "cached_tokens")} == dict.fromkeys(("tools", "parallel_tools", "images", "structured_output", "effort", "usage", "cached_tokens"), False)  # fmt: skip
    assert profile.value("reasoning_field") == "" and profile.value("context_window") is None
    assert "refused" in profile.facts["tools"].how and "ignored" in profile.facts["structured_output"].how
    assert profile.facts["reasoning_returned"].value is None
    assert len(server.requests) <= 24


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_returned_thinking_that_makes_the_prompt_grow_is_used_under_that_name(name: str) -> None:
    def server(request: Request) -> Reply:
        size = sum(len(message.get(name, "")) for message in request.messages)
        return completion(text="5", reasoning="hm", usage=(50 + size // 4, 5))

    profile, _ = await probed(server)
    assert (profile.value("reasoning_returned"), profile.value("reasoning_input")) == ("used", name)


async def test_returned_thinking_without_any_effect_is_called_ignored_and_without_usage_unknown() -> None:
    for usage, value in (((50, 5), "ignored"), (None, None)):
        profile, _ = await probed(lambda _, usage=usage: completion(text="5", reasoning="hm", usage=usage))
        assert profile.value("reasoning_returned") == value


async def test_a_tier_that_changes_the_prompt_is_honoured_and_one_that_changes_nothing_unknown() -> None:
    def in_the_prompt(request: Request) -> Reply:
        return completion(
            text="x", reasoning="hm", usage=(50 + (request.body["reasoning_effort"] == "max"), 5)
        )

    assert (await probed(in_the_prompt))[0].value("effort") is True
    same, _ = await probed(lambda _: completion(text="x", reasoning="hm " * 99, usage=(50, 5)))
    assert same.value("effort") is None and "no clear difference" in same.facts["effort"].how


async def test_think_tags_in_the_text_are_recognised_as_a_missing_parser() -> None:
    profile, _ = await probed(lambda _: completion(text="<think>so</think>5"))
    assert profile.value("reasoning_field") is None
    assert "without a reasoning parser" in profile.facts["reasoning_field"].how


async def test_time_that_runs_out_leaves_the_rest_unknown() -> None:
    release = threading.Event()
    profile, _ = await probed(lambda _: Reply(pieces=[Pause(release)]), seconds=0.3)
    release.set()
    assert profile.facts["tools"].value is None and "time of the probe was over" in profile.facts["tools"].how
    assert profile.context_window == 40_960


@pytest.mark.parametrize(
    ("prefix", "documents", "window"),
    [
        ("llamacpp", {"/props": {"default_generation_settings": {"n_ctx": 8192}}}, 8192),
        ("openai", {"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}]}, "/props": {"default_generation_settings": {"n_ctx": 4096}}}, 4096),
        ("sglang", {"/get_server_info": {"context_length": 32_768}}, 32_768),
        ("ollama", {"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}}, 4096),
        ("openai", {"/v1/models": {"data": [{"id": "m", "context_length": 200_000}]}}, 200_000),
        ("openai", {"/v1/models": {"data": [{"id": "m", "max_model_len": True}, {"id": 7}, "x"]}}, None),
        ("openai", {"/props": {"default_generation_settings": None}}, None),
        ("vllm", {}, None),
    ],
)  # fmt: skip
async def test_the_window_is_read_where_each_server_keeps_it(
    prefix: str, documents: dict[str, Any], window: int | None
) -> None:
    with MockServer([], documents=documents) as server:
        transport = Transport(resolve(prefix, "m", server.url, {}))
        profile = await look(transport)
        await transport.close()
    assert profile.context_window == window


async def test_prices_of_a_list_are_per_million_tokens() -> None:
    entry = {
        "id": "a/b",
        "context_length": 1000,
        "pricing": {"prompt": "0.0000006", "completion": "0.0000025"},
    }
    with MockServer([], documents={"/v1/models": {"data": [entry]}}) as server:
        transport = Transport(resolve("openrouter", "a/b", server.url, {}))
        (model,) = await list_models(transport)
        await transport.close()
    assert model.prices is not None and [round(price, 6) for price in model.prices] == [0.6, 2.5]


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (
            Reply([b"<!doctype html><title>Welcome</title>"], headers={"content-type": "text/html"}),
            Failure.ADDRESS,
        ),
        (Reply([b'{"hello": 1}'], headers={"content-type": "application/json"}), Failure.ADDRESS),
        (Reply([b'{"error": {"message": "bad key"}}'], status=401), Failure.AUTH),
        (Reply([], status=302, headers={"location": "https://login.example/"}), Failure.ADDRESS),
        (Reply([b"[" * 100_000]), Failure.ADDRESS),
    ],
)
async def test_what_is_no_chat_server_is_told_apart_in_one_line(reply: Reply, failure: Failure) -> None:
    with MockServer([], documents={"/v1/models": reply}) as server:
        transport = Transport(resolve("vllm", "m", server.url, {}))
        with pytest.raises(RemoteError) as caught:
            await probe(transport)
        await transport.close()
    assert caught.value.failure is failure and "\n" not in caught.value.one_line()
    assert server.requests == []


async def test_a_model_that_the_server_does_not_have_ends_the_probe_with_the_servers_words() -> None:
    gone = Reply([b'{"error": {"message": "The model `big` does not exist"}}'], status=404)
    with pytest.raises(RemoteError, match="does not exist"):
        await probed(lambda _: gone)
