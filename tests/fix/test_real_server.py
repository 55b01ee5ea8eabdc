"""llama.cpp's own server with a tiny real model: plumbing, streaming, errors, constraints; no intelligence.

What the server does here was seen, not read about: it streams no usage although it was asked for, takes
any model name, ignores tools unless one is forced, answers 500 to requests it cannot take, refuses null
beside calls, and ends a stream without a word when the prompt is too long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.limits import MaxSteps
from whimbrel.app.agent.prompts import opening
from whimbrel.app.paths import cache_dir
from whimbrel.engine.chat import (
    Finished,
    ImagePart,
    Message,
    ModelNotice,
    StreamEvent,
    TextDelta,
    ToolCallEnd,
    ToolSpec,
    Usage,
    user,
)
from whimbrel.engine.remote.client import RemoteModel
from whimbrel.engine.remote.endpoint import resolve
from whimbrel.engine.remote.failures import Failure, RemoteError

from ..agent.scene import Echo, scene
from ..real_server import RealServer
from .conftest import WHIMBREL, Ran, Repo

pytestmark = pytest.mark.timeout(120)

WINDOW = 4096
IMAGE = ImagePart(media_type="image/png", data_base64="iVBORw0KGgo=")
READ = ToolSpec(
    "read", "Reads a file", {"type": "object", "properties": {"path": {"enum": ["a.py", "b.py"]}}, "required": ["path"]}
)  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], RealServer]:
    """``with start(4096) as server:`` runs one with so many tokens of context; skips without `make local`."""
    from whimbrel.app.repair.language.weights import find_model, prepared
    from whimbrel.engine.gguf.files import UnusableModel
    from whimbrel.engine.gguf.library import lacking_library

    lacking = lacking_library()
    path = Path()
    if lacking is None:
        try:
            path = prepared(find_model(), cache_dir() / "models")
        except UnusableModel as error:
            lacking = str(error)
    if lacking is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(lacking)
        pytest.skip(lacking)

    def make(window: int) -> RealServer:
        argv = [sys.executable, "-m", "llama_cpp.server", "--model", str(path), "--model_alias", "smollm2"]
        argv += ["--n_ctx", str(window), "--n_threads", "1", "--n_threads_batch", "1"]
        argv += ["--host", "127.0.0.1", "--port", "{port}"]
        return RealServer(argv, tmp_path_factory.mktemp("server") / "log")

    return make


@pytest.fixture(scope="module")
def server(start: Callable[[int], RealServer]) -> Iterator[RealServer]:
    """One server for this file."""
    with start(WINDOW) as running:
        yield running


async def ask(
    server: RealServer,
    history: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    *,
    extra: dict[str, Any] | None = None,
    model: str = "smollm2",
    limit: int = 8,
) -> list[StreamEvent]:
    endpoint = replace(resolve("openai", model, server.url, {}), extra_body=extra or {})
    client = RemoteModel(endpoint)
    try:
        return [each async for each in client.stream(history, tools, max_output_tokens=limit, seed=1)]
    finally:
        await client.close()


def only(events: Sequence[StreamEvent], kind: Any) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


def said(events: Sequence[StreamEvent]) -> str:
    return "".join(each.text for each in only(events, TextDelta))


async def test_an_answer_streams_in_pieces_and_missing_usage_stays_unknown(server: RealServer) -> None:
    events = await ask(server, [user("Say hello.")])
    assert len(only(events, TextDelta)) > 2
    assert events[-1] == Finished(reason="length")
    assert only(events, Usage) == []


async def test_the_server_takes_any_model_name(server: RealServer) -> None:
    assert said(await ask(server, [user("Say hello.")], model="nobody-knows-me"))


async def test_a_prompt_that_is_too_long_is_an_overflow_although_the_stream_says_nothing(
    server: RealServer,
) -> None:
    with pytest.raises(RemoteError) as caught:
        await ask(server, [user("word " * (WINDOW + 100))])
    assert caught.value.failure is Failure.CONTEXT_OVERFLOW
    assert f"maximum context length is {WINDOW} tokens" in caught.value.one_line()


async def test_what_it_refuses_with_500_is_no_trouble_of_the_server_to_be_waited_for(
    server: RealServer,
) -> None:
    events = await ask(server, [user("hi")], extra={"top_k": "many"})
    (notice,) = only(events, ModelNotice)
    assert "does not take top_k" in notice.text and said(events)
    with pytest.raises(RemoteError) as caught:
        await ask(server, [Message(role="user", parts=(IMAGE,))])
    assert caught.value.failure is Failure.BAD_REQUEST


async def test_a_constrained_answer_is_what_the_schema_says(server: RealServer) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"]}
    extra = {"response_format": {"type": "json_object", "schema": schema}}
    events = await ask(server, [user("Name a colour.")], extra=extra, limit=40)
    assert json.loads(said(events))["colour"] in ("red", "green")


async def test_a_forced_call_arrives_whole_and_constrained(server: RealServer) -> None:
    choice = {"tool_choice": {"type": "function", "function": {"name": "read"}}}
    events = await ask(server, [user("Read a file.")], [READ], extra=choice, limit=40)
    (call,) = only(events, ToolCallEnd)
    assert call.name == "read" and json.loads(call.arguments)["path"] in ("a.py", "b.py")
    assert events[-1] == Finished(reason="tool_calls")


async def test_an_agent_calls_tools_and_goes_on_with_their_results(
    server: RealServer, tmp_path: Path
) -> None:
    forced = {"tool_choice": {"type": "function", "function": {"name": "read"}}, "max_tokens": 60}
    client = RemoteModel(replace(resolve("openai", "smollm2", server.url, {}), extra_body=forced))
    echo = Echo()
    async with scene(tmp_path) as stage:
        try:
            outcome = await stage.make(client, [echo], limits=[MaxSteps(2)]).run(opening("total is wrong"))
        finally:
            await client.close()
        assert outcome.status == "budget" and outcome.steps == 2
        # Nothing is reported, so it is estimated and not zero.
        assert outcome.usage.input_tokens is None and outcome.usage.estimated_tokens > 0
        assert [message.role for message in stage.stored()][-2:] == ["assistant", "tool"]
        assert len(echo.seen) == len(stage.of("tool_finished")) == 2
        # Null beside calls is refused once, and never sent again.
        notices = [each.text for each in stage.events if isinstance(each, ModelNotice)]
        assert len([text for text in notices if "content beside tool calls" in text]) == 1


@pytest.mark.slow
def test_the_probe_finds_out_how_it_wants_to_be_spoken_to(
    start: Callable[[int], RealServer], home: dict[str, str]
) -> None:
    # A small window cuts what the model would say without end.
    with start(512) as small:
        done = subprocess.run(
            [*WHIMBREL, "model", "probe", small.url], env=home, capture_output=True, text=True, timeout=100
        )
    assert done.returncode == 0, done.stderr
    lines = {line[:28].strip(): line[28:] for line in done.stdout.splitlines()}
    assert done.stdout.startswith(f"smollm2 at {small.url}")
    assert lines["content beside calls"].split() == ["empty", "null", "is", "refused"]
    assert lines["usage reported"].startswith(" no") and lines["images"].startswith(" no")


def test_a_whole_run_ends_honestly(server: RealServer, fix: Callable[..., Ran], buggy: Repo) -> None:
    before = buggy.fingerprint()
    ran = fix(
        buggy, "--model", f"openai:smollm2@{server.url}", "--max-steps", "3", "--json",
        WHIMBREL_EXTRA_BODY='{"max_tokens": 24}', WHIMBREL_LLAMA_THREADS="1",
    )  # fmt: skip
    # It says something and repairs nothing: that must not count as fixed.
    assert ran.code in (4, 6, 7), ran.err
    result = ran.result
    assert result["exit_code"] == ran.code and result["status"] in ("not_fixed", "budget", "loop")
    assert result["tests_before"]["counts"] == {"failed": 1, "passed": 2}
    assert not (ran.output / "patch.diff").exists() and buggy.fingerprint() == before
    kinds = [event["data"]["kind"] for event in ran.events if event["event"] == "agent"]
    assert "step_started" in kinds and kinds[-1] == "run_finished"
    assert result["session_id"]
