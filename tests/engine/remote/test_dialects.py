"""What each family of servers is told, and what of earlier thinking it gets back."""

from __future__ import annotations

from typing import Any

import pytest
from whimbrel.engine.chat import Message, OpaquePart, ReasoningPart, TextPart, user
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.client import RemoteModel
from whimbrel.engine.remote.dialects import DIALECTS, structured_forms
from whimbrel.sandbox.base.errors import ConfigError

from ...mock_server import chunk, completion, sse, stream, usage_chunk
from .asking import Conversation, finished_round

THINKS = {"enable_thinking": True, "thinking": True, "preserve_thinking": True}
ON, OFF = {"type": "enabled"}, {"type": "disabled"}


@pytest.mark.parametrize(
    ("prefix", "effort", "wanted"),
    [
        ("openai", "low", {"reasoning_effort": "low"}),
        ("openai", "max", {"reasoning_effort": "xhigh"}),
        (
            "vllm",
            "max",
            {
                "reasoning_effort": "max",
                "thinking_budget": "max",
                "chat_template_kwargs": THINKS | {"thinking_effort": "max"},
            },
        ),
        ("sglang", "low", {"separate_reasoning": True, "stream_reasoning": True, "thinking_budget": "low"}),
        (
            "llamacpp",
            "high",
            {"chat_template_kwargs": THINKS | {"thinking_effort": "high", "reasoning_effort": "high"}},
        ),
        ("deepseek", "max", {"thinking": ON, "reasoning_effort": "max"}),
        ("kimi-api", "low", {"reasoning_effort": "low", "max_tokens": 32_000}),
        ("openrouter", "low", {"reasoning": {"effort": "low"}, "usage": {"include": True}}),
        ("ollama", "high", {"reasoning_effort": "high"}),
        ("vllm", "off", {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        ("deepseek", "off", {"thinking": OFF}),
        ("kimi-api", "off", {"thinking": OFF}),
        ("openrouter", "off", {"reasoning": {"enabled": False}}),
    ],
)  # fmt: skip
async def test_each_family_is_told_the_tier_in_its_own_words(
    prefix: str, effort: Any, wanted: dict[str, Any]
) -> None:
    async with Conversation([completion(text="fine")], prefix) as talk:
        talk.model.thinking = effort != "off"
        await talk.step(effort="high" if effort == "off" else effort)
        body = talk.bodies[0]
    assert {key: body.get(key) for key in wanted} == wanted
    assert set(body) - set(wanted) <= {"model", "messages", "stream", "stream_options"} | (
        {"reasoning_effort", "chat_template_kwargs"} if prefix == "sglang" else set()
    ) | {"usage", "max_tokens"}


@pytest.mark.parametrize("prefix", [name for name, dialect in DIALECTS.items() if dialect.needs_key])
def test_a_provider_is_found_at_home_and_asks_for_its_own_key(prefix: str) -> None:
    dialect = DIALECTS[prefix]
    with pytest.raises(ConfigError) as caught:
        load_model(f"{prefix}:some/model", environ={})
    assert dialect.keys[0] in caught.value.hint and "model login" in caught.value.hint
    model = load_model(f"{prefix}:some/model", environ={dialect.keys[0]: "k-1"})
    assert isinstance(model, RemoteModel)
    assert (model.endpoint.base_url, model.endpoint.api_key) == (dialect.url, "k-1")


def test_a_variable_meant_for_servers_of_ones_own_moves_no_provider() -> None:
    environ = {"WHIMBREL_BASE_URL": "https://gpu.example/v1", "DEEPSEEK_API_KEY": "k", "VLLM_API_KEY": "v"}
    for spec, url in (("vllm:m", "https://gpu.example/v1"), ("deepseek:m", "https://api.deepseek.com/v1")):
        model = load_model(spec, environ=environ)
        assert isinstance(model, RemoteModel) and model.endpoint.base_url == url


async def test_thinking_switched_off_in_a_session_takes_all_earlier_thinking_out() -> None:
    async with Conversation([completion(text="a"), completion(text="b"), completion(text="c")]) as talk:
        history = finished_round(thinking="secret plan", field="reasoning", source=talk.source)
        history.append(
            Message(
                role="assistant",
                parts=(
                    OpaquePart(provider=talk.source, payload={"reasoning_details": [{"data": "x"}]}),
                    TextPart(text="done"),
                ),
            )
        )
        history.append(user("again"))
        await talk.step(history)
        talk.model.thinking = False
        await talk.step(history)
        talk.model.thinking = True
        await talk.step(history)
        on, off, again = (body["messages"] for body in talk.bodies)
    assert on[1]["reasoning"] == "secret plan" and on[3]["reasoning_details"] == [{"data": "x"}]
    assert not {"reasoning", "reasoning_content", "reasoning_details"} & {key for one in off for key in one}
    assert again == on


async def test_thinking_of_another_model_is_left_out_or_goes_on_as_text_where_some_is_demanded() -> None:
    foreign = finished_round(thinking="I am another", field="thinking", source="other:m@host")
    plain = Message(
        role="assistant", parts=(ReasoningPart(text="more", source="other:m@host"), TextPart(text="x"))
    )
    history = [*foreign, plain, user("go on")]
    async with Conversation([completion(text="fine")], "vllm") as talk:
        await talk.step(history)
        assert not {"thinking", "reasoning", "reasoning_content"} & {
            key for message in talk.bodies[0]["messages"] for key in message
        }
    async with Conversation([completion(text="fine")], "deepseek") as talk:
        await talk.step(history)
        sent = talk.bodies[0]["messages"]
    assert sent[1]["reasoning_content"] == "I am another" and "thinking" not in sent[1]
    assert "reasoning_content" not in sent[3]


@pytest.mark.parametrize("prefix", ["deepseek", "kimi-api"])
async def test_a_call_made_without_thinking_still_carries_an_empty_one_where_it_must(prefix: str) -> None:
    async with Conversation([completion(text="fine")], prefix) as talk:
        await talk.step(finished_round())
        assert talk.bodies[0]["messages"][1]["reasoning_content"] == ""


async def test_reasoning_details_come_back_unchanged_and_only_to_their_model() -> None:
    details = [
        {"type": "reasoning.encrypted", "data": "q+/=", "id": None, "index": 0},
        {"type": "x", "n": [1]},
    ]
    shown = stream(
        chunk({"reasoning": "hm", "reasoning_details": details}), chunk({"content": "a"}, finish="stop")
    )
    async with Conversation([shown, completion(text="b")], "openrouter") as talk:
        (opaque,) = [event for event in await talk.step() if event.kind == "opaque_received"]
        assert opaque.provider == talk.source
        parts = (ReasoningPart(text="hm", field="reasoning", source=talk.source),
                 OpaquePart(provider=opaque.provider, payload=opaque.payload), TextPart(text="a"))  # fmt: skip
        await talk.step([user("x"), Message(role="assistant", parts=parts), user("y")])
        assert talk.bodies[1]["messages"][1] == {
            "role": "assistant", "content": "a", "reasoning": "hm", "reasoning_details": details
        }  # fmt: skip
    async with Conversation([completion(text="b")], "openrouter", name="another") as other:
        await other.step([user("x"), Message(role="assistant", parts=parts), user("y")])
        assert other.bodies[0]["messages"][1] == {"role": "assistant", "content": "a"}


async def test_an_entry_of_reasoning_details_that_is_streamed_in_pieces_goes_back_whole() -> None:
    def piece(**values: Any) -> bytes:
        return chunk({"reasoning_details": [values]})

    shown = stream(
        piece(type="reasoning.text", index=0, text="so ", signature=None),
        piece(type="reasoning.text", index=0, text="it is"),
        piece(type="reasoning.text", index=0, text="", signature="s"),
        piece(type="reasoning.encrypted", index=1, data="a"),
        piece(type="reasoning.encrypted", index=1, data="b"),
        chunk({"content": "x"}, finish="stop"),
    )
    async with Conversation([shown], "openrouter") as talk:
        (opaque,) = [event for event in await talk.step() if event.kind == "opaque_received"]
    assert opaque.payload["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "so it is", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "a"},
        {"type": "reasoning.encrypted", "index": 1, "data": "b"},
    ]


async def test_what_goes_to_a_server_on_this_machine_passes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Conversation([completion(text="x")]) as talk:
        assert [event.kind for event in await talk.step()][-1] == "finished"


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, 64),
        ({"cached_tokens": 0}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 7}}, 7),
        ({"prompt_tokens_details": None}, None),
    ],
)
async def test_cached_tokens_are_read_where_each_family_puts_them_and_unknown_is_not_zero(
    usage: dict[str, Any], cached: int | None
) -> None:
    async with Conversation([stream(chunk({"content": "x"}, finish="stop"), usage_chunk(**usage))]) as talk:
        (counted,) = [event for event in await talk.step() if event.kind == "usage"]
    assert counted.cached_tokens == cached and counted.cost_usd is None


async def test_a_cost_is_taken_from_the_endpoint_or_else_made_of_prices() -> None:
    said = stream(
        chunk({"content": "x"}, finish="stop"),
        sse({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "cost": 0.5}}),
    )
    silent = stream(
        chunk({"content": "x"}, finish="stop"), usage_chunk(1_000_000, 100_000, cached_tokens=500_000)
    )
    async with Conversation([said, silent], environ={"WHIMBREL_PRICES": "2,10,1"}) as talk:
        await talk.step()
        await talk.step()
    assert [event.cost_usd for event in talk.events if event.kind == "usage"] == [0.5, 1.0 + 0.5 + 1.0]
    with pytest.raises(ConfigError, match="WHIMBREL_PRICES"):
        load_model("vllm:m", environ={"WHIMBREL_PRICES": "cheap"})


async def test_a_person_may_add_fields_of_a_server_we_know_nothing_about() -> None:
    environ = {"WHIMBREL_EXTRA_BODY": '{"thinking_budget": "max", "top_k": 20}'}
    async with Conversation([completion(text="x")], "openai", environ=environ) as talk:
        await talk.step(effort="low")
        assert (talk.bodies[0]["thinking_budget"], talk.bodies[0]["top_k"]) == ("max", 20)
    for bad in ("[1]", "{", '{"messages": []}'):
        with pytest.raises(ConfigError):
            load_model("vllm:m", environ={"WHIMBREL_EXTRA_BODY": bad})


def test_structured_answers_are_asked_for_in_the_form_of_the_family() -> None:
    schema = {"type": "object"}
    assert next(iter(structured_forms(DIALECTS["vllm"], schema).values())) == {
        "structured_outputs": {"json": schema}
    }
    for prefix in ("sglang", "openai"):
        first = next(iter(structured_forms(DIALECTS[prefix], schema).values()))
        assert first["response_format"]["json_schema"] == {"name": "answer", "schema": schema, "strict": True}
