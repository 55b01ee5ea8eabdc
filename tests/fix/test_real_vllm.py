"""A real vLLM on the processor, with SmolLM2-135M: opt-in (`make test-vllm`), for it is 3 GB of packages."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.paths import cache_dir
from whimbrel.engine.chat import (
    Finished,
    Message,
    StreamEvent,
    TextDelta,
    ToolCallEnd,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    Usage,
    user,
)
from whimbrel.engine.gguf.files import wheel_model
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.client import RemoteModel
from whimbrel.engine.remote.endpoint import resolve
from whimbrel.engine.remote.failures import Failure, RemoteError

from ..real_server import RealServer
from .conftest import WHIMBREL, Ran, Repo

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]

WINDOW = 4096
READ = ToolSpec(
    "read", "Reads a file", {"type": "object", "properties": {"path": {"enum": ["a.py", "b.py"]}}, "required": ["path"]}
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    python = os.environ.get("WHIMBREL_VLLM_PYTHON", "")
    if not python:
        pytest.skip("WHIMBREL_VLLM_PYTHON names no interpreter that has vLLM")
    source = wheel_model()
    assert source is not None, "the weights come with `make local`"
    weights = cache_dir() / "vllm" / "smollm2"
    if not weights.is_dir():
        script = Path(__file__).parents[1] / "vllm_weights.py"
        weights.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, str(script), str(source), str(weights)], check=True, timeout=600)
    argv = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(weights)]
    argv += ["--served-model-name", "smollm2", "--max-model-len", str(WINDOW), "--enforce-eager"]
    argv += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--enable-prompt-tokens-details"]
    argv += ["--host", "127.0.0.1", "--port", "{port}"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log = tmp_path_factory.mktemp("vllm") / "log"
    with RealServer(argv, log, patience_s=600, environ=settings) as running:
        yield running


async def ask(
    server: RealServer,
    history: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    *,
    extra: dict[str, Any] | None = None,
    model: str = "smollm2",
    limit: int = 16,
) -> list[StreamEvent]:
    endpoint = replace(resolve("vllm", model, server.url, {}), extra_body=extra or {})
    client = RemoteModel(endpoint)
    try:
        return [each async for each in client.stream(history, tools, max_output_tokens=limit, seed=1)]
    finally:
        await client.close()


def only(events: Sequence[StreamEvent], kind: Any) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


async def test_an_answer_streams_with_usage(server: RealServer) -> None:
    events = await ask(server, [user("Say hello to everybody in the room.")])
    assert len(only(events, TextDelta)) > 2
    (usage,) = only(events, Usage)
    assert usage.input_tokens > 10 and 0 < usage.output_tokens <= 16
    assert events[-1].kind == "finished"


async def test_a_model_it_does_not_serve_is_refused_by_name(server: RealServer) -> None:
    with pytest.raises(RemoteError) as caught:
        await ask(server, [user("hi")], model="nobody-knows-me")
    assert caught.value.failure is Failure.BAD_REQUEST and "nobody-knows-me" in caught.value.one_line()


async def test_a_prompt_that_is_too_long_is_an_overflow(server: RealServer) -> None:
    with pytest.raises(RemoteError) as caught:
        await ask(server, [user("word " * (WINDOW + 100))])
    assert caught.value.failure is Failure.CONTEXT_OVERFLOW


async def test_a_required_call_arrives_and_calls_with_results_are_taken_back(server: RealServer) -> None:
    question = user("Read a.py with the tool.")
    events = await ask(server, [question], [READ], extra={"tool_choice": "required"}, limit=120)
    # That it calls is enforced; that the arguments fit is left to the model, and this one is tiny.
    assert [call.name for call in only(events, ToolCallEnd)] == ["read"]
    assert events[-1] == Finished(reason="tool_calls")
    part = ToolCallPart(id="call_1", name="read", arguments='{"path": "a.py"}')
    result = ToolResultPart(call_id="call_1", name="read", text="x = 1")
    history = [
        question,
        Message(role="assistant", parts=(part,)),
        Message(role="tool", parts=(result,)),
    ]
    (usage,) = only(await ask(server, history, [READ]), Usage)
    assert usage.input_tokens > 20


async def test_a_constrained_answer_is_what_the_schema_says(server: RealServer) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"]}
    extra = {"structured_outputs": {"json": schema}}
    events = await ask(server, [user("Name a colour.")], extra=extra, limit=60)
    text = "".join(each.text for each in only(events, TextDelta))
    assert json.loads(text)["colour"] in ("red", "green")


async def test_the_messages_form_that_it_speaks_too_streams_with_usage(server: RealServer) -> None:
    model = load_model(f"anthropic:smollm2@{server.url}", environ={})
    try:
        events = [each async for each in model.stream([user("Say hello.")], (), max_output_tokens=16)]
    finally:
        await model.close()
    assert only(events, TextDelta) and events[-1] == Finished(reason="length")
    (usage,) = only(events, Usage)
    assert usage.input_tokens > 5 and usage.output_tokens == 16


def test_the_probe_reads_what_it_serves(server: RealServer, home: dict[str, str]) -> None:
    done = subprocess.run(
        [*WHIMBREL, "model", "probe", server.url], env=home, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "smollm2" in done.stdout and str(WINDOW) in done.stdout


def test_a_whole_run_ends_honestly(server: RealServer, fix: Callable[..., Ran], buggy: Repo) -> None:
    before = buggy.fingerprint()
    ran = fix(
        buggy, "--model", f"vllm:smollm2@{server.url}", "--max-steps", "3",
        WHIMBREL_EXTRA_BODY='{"max_tokens": 24}', timeout=600,
    )  # fmt: skip
    assert ran.code in (4, 6, 7, 8), ran.err
    assert ran.result["exit_code"] == ran.code and ran.result["session_id"]
    assert not (ran.output / "patch.diff").exists() and buggy.fingerprint() == before
