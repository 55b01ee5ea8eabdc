"""A tiny checkpoint behind the server, asked by the official client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import jsonschema
import openai
import pytest
from whimbrel.engine.kimi.backend import NativeBackend
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.serve.app import Limits

from tests.engine.kimi.test_answering import READ, SCHEMA
from tests.engine.serve.scripted import Running, running

TOOL = {"type": "function", "function": {"name": READ.name, "description": "", "parameters": READ.parameters}}
SETTINGS = {"WHIMBREL_KIMI_CACHE_MIB": "64", "WHIMBREL_KIMI_BATCH": "32"}


@pytest.fixture
async def at(tmp_path: Path):
    make_tiny(tmp_path / "k3", TinyOptions(hidden=32, layers=4, experts=4))
    backend = NativeBackend.open(str(tmp_path / "k3"), ["tiny"], SETTINGS)
    await backend.start()
    try:
        async with running(backend, limits=Limits(concurrent=32, queue=8)) as server:
            yield server
    finally:
        await backend.close()


def client(at: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="-", http_client=at.http, max_retries=0)


async def test_32_clients_at_a_time_with_every_form_of_question(at: Running):
    ask = client(at).chat.completions.create
    close = at.backend._answering.chat.tokenizer.special("<|close|>")
    bounded = {"thinking_budget": 3}

    async def one(number: int) -> tuple[str, int]:
        base = {
            "model": "tiny", "messages": [{"role": "user", "content": "question"}],
            "seed": number % 16, "max_tokens": 10, "extra_body": bounded,
        }  # fmt: skip
        match number % 4:
            case 0:
                answer = await ask(**base, logprobs=True, top_logprobs=2)
                choice = answer.choices[0]
                told = b"".join(bytes(each.bytes) for each in choice.logprobs.content)
                assert told.decode("utf-8", "replace") == choice.message.content
                return choice.message.content, answer.usage.completion_tokens
            case 1:
                text, usage = "", None
                stream = await ask(**base, stream=True, stream_options={"include_usage": True})
                async for chunk in stream:
                    text += "".join(choice.delta.content or "" for choice in chunk.choices)
                    usage = chunk.usage or usage
                return text, usage.completion_tokens
            case 2:
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
                answer = await ask(**{**base, "max_tokens": 200}, response_format=form)
                jsonschema.validate(json.loads(answer.choices[0].message.content), SCHEMA)
                return answer.choices[0].message.content, answer.usage.completion_tokens
            case _:
                answer = await ask(
                    **{**base, "max_tokens": 900}, tools=[TOOL], tool_choice="required",
                    parallel_tool_calls=False, logit_bias={str(close): 6},
                )  # fmt: skip
                (call,) = answer.choices[0].message.tool_calls
                jsonschema.validate(json.loads(call.function.arguments), READ.parameters)
                assert answer.choices[0].finish_reason == "tool_calls"
                return call.function.arguments, answer.usage.completion_tokens

    alone = [await one(number) for number in range(4)]
    answers = await asyncio.gather(*(one(number) for number in range(32)))
    # The same question with the same seed: alone or among others, computed or from kept states.
    assert answers[:4] == alone and answers[:16] == answers[16:]
    figures = await at.metrics()
    assert figures['whimbrel_engine_requests_total{end="stop"}'] >= 18
    assert figures["whimbrel_engine_batch_sum"] > figures["whimbrel_engine_batch_count"]
    assert figures['whimbrel_engine_first_token_seconds_bucket{le="+Inf"}'] == 36
    assert figures["whimbrel_engine_prefix_hits_total"] >= 32


async def test_a_client_that_leaves_frees_what_its_request_held(at: Running):
    stream = await client(at).chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "a " * 500}], max_tokens=4000, stream=True
    )
    async for _ in stream:
        break
    await stream.close()
    engine = at.backend._answering.engine
    await asyncio.wait_for(engine.drain(), 30)
    assert engine.metrics.finished == {"cancelled": 1}
    # What is left belongs to the kept end of the prompt.
    engine._scheduler.cache.clear()
    assert at.backend._answering.runner.pages_free == at.backend._answering.runner.pages_total
