"""Our own agent and our own probe against our own server."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from whimbrel.app.agent.prompts import opening
from whimbrel.app.commands.model import probe_command
from whimbrel.engine.chat import Finished, ImagePart, ReasoningDelta, ReasoningPart, TextDelta, Usage
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.endpoint import resolve
from whimbrel.engine.remote.probe import probe
from whimbrel.engine.remote.transport import Transport
from whimbrel.engine.serve.backend import GenerationEvent, GenerationRequest
from whimbrel.engine.serve.opening import open_backend, open_server
from whimbrel.sandbox.base.errors import ConfigError, UsageError

from ...agent.scene import Echo, scene
from .scripted import call, running


async def turns(request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
    """Thinks, reads two files in one step, and answers with what came back."""
    results = [part.text for message in request.messages if message.role == "tool" for part in message.parts]  # pyright: ignore
    if not results:
        yield ReasoningDelta(text="both at once")
        for event in (*call("r1", "read", '{"path": ', '"a"}'), *call("r2", "read", '{"path": "b"}')):
            yield event
    else:
        thought = [part.text for message in request.messages for part in message.parts if isinstance(part, ReasoningPart)]  # fmt: skip
        yield TextDelta(text=f"{thought[0]}: {' and '.join(results)}")
    yield Usage(input_tokens=100 + len(results), output_tokens=5, cached_tokens=64)
    yield Finished(reason="stop" if results else "tool_calls")


@pytest.mark.parametrize("form", ["vllm:tiny@{}/v1", "anthropic:tiny@{}/v1"])
async def test_an_agent_works_through_its_tools_against_the_server(tmp_path: Path, form: str) -> None:
    async with running(turns) as at, scene(tmp_path) as here:
        model = load_model(form.format(at.url), environ={})
        try:
            outcome = await here.make(model, [Echo()]).run(opening("look"), effort="low")
        finally:
            await model.close()
        assert len(at.backend.requests) == 2
        assert [each[0] for each in here.results()] == ["r1", "r2"]
    assert outcome.status == "answered", outcome.error
    # The thinking of the first step came back with the second one.
    assert outcome.final_text == "both at once: content of a and content of b"
    assert (outcome.usage.input_tokens, outcome.usage.cached_tokens) == (202, 128)


async def able(request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
    """A thinking model that does what the probe asks; its prompts grow with what is in them."""
    parts = [part for message in request.messages for part in message.parts]
    size = sum(len(getattr(part, "text", "")) for part in parts) // 4
    budget = request.thinking_budget
    words = {"low": 100, "high": 300, "max": 900, None: 300}[request.effort] if budget is None else budget
    events: list[GenerationEvent] = (
        [ReasoningDelta(text="w " * words)] if request.thinking is not False else []
    )
    reason: Any = "stop"
    if request.tools and request.messages[-1].role != "tool":
        events += [*call("p1", "add", '{"a": 2, "b": 3}'), *call("p2", "add", '{"a": 40, "b": 2}')]
        reason = "tool_calls"
    elif request.structure:
        events.append(TextDelta(text='{"colour": "teal", "n": 1}'))
    else:
        seen = any(isinstance(part, ImagePart) for part in parts)
        events.append(TextDelta(text="Red." if seen else "17"))
    for event in events:
        yield event
    yield Usage(input_tokens=20 + size, output_tokens=words, cached_tokens=0, reasoning_tokens=words)
    yield Finished(reason=reason)


@pytest.mark.parametrize("prefix", ["vllm", "openai"])
async def test_our_probe_finds_everything_the_model_can_do(prefix: str) -> None:
    async with running(able) as at:
        transport = Transport(resolve(prefix, "tiny", f"{at.url}/v1", {}, None))
        profile = await probe(transport, seconds=30)
        refused = await at.metrics()
    facts = {name: fact.value for name, fact in profile.facts.items()}
    assert facts == {
        "context_window": 1000,
        "reasoning_field": "reasoning_content",
        "reasoning_input": "reasoning_content",
        "reasoning_returned": "used",
        "empty_content": "null",
        "tools": True,
        "parallel_tools": True,
        "images": True,
        "structured_output": True,
        "effort": True,
        "thinking_budget": True,
        "thinking_token_budget": True,
        "usage": True,
        "cached_tokens": True,
    }
    assert profile.dialect == "vllm"
    assert 'whimbrel_requests_total{path="/v1/chat/completions",status="400"}' not in refused


def test_a_model_in_the_messages_form_is_not_probed_and_that_is_said() -> None:
    told = CliRunner().invoke(probe_command, ["anthropic:tiny@http://127.0.0.1:8000/v1"])
    assert isinstance(told.exception, UsageError) and "needs no probe" in told.exception.one_line()


def test_what_is_missing_or_wrong_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in ("gpt", "embedded", "openai:x", "llama:", "model.gguf"):
        with pytest.raises(UsageError) as wrong:
            open_backend(spec, (), {})
        assert "(one of llama:" in wrong.value.one_line() or "(llama:model.gguf)" in wrong.value.one_line()
    with pytest.raises(ConfigError):
        open_backend("llama:/no/such.gguf", (), {})
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name))
    with pytest.raises(ConfigError, match="needs uvicorn, which the extra `serve` brings"):
        open_server({"model": "llama:smollm2"}, version="1")
