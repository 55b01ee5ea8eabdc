"""The server as a process of its own: signals, exit codes, and a real model from end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ..gguf.local_model import need_local_model

pytestmark = pytest.mark.timeout(120)
CHAT: Any = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True}


@dataclass
class Process:
    popen: subprocess.Popen[str]
    url: str

    def line(self) -> dict[str, Any]:
        assert self.popen.stderr
        return json.loads(self.popen.stderr.readline())

    def until(self, event: str) -> dict[str, Any]:
        while (line := self.line())["event"] != event:
            pass
        return line


@contextmanager
def started(*command: str, env: dict[str, str] | None = None) -> Iterator[Process]:
    popen = subprocess.Popen(
        [sys.executable, *command], stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    try:
        process = Process(popen, "")
        process.url = process.until("serving")["url"]
        yield process
    finally:
        popen.kill()
        popen.communicate()


def _child_of(pid: int) -> int:
    """The process that runs the model: the only one that the server has started."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.mark.parametrize(
    ("drain", "let_go", "signals", "code", "last"),
    [
        ("60", True, [signal.SIGTERM], 0, "[DONE]"),
        ("0", False, [signal.SIGTERM], 0, "shutting down"),
        ("60", False, [signal.SIGTERM, signal.SIGTERM], 143, ""),
        ("60", False, [signal.SIGINT, signal.SIGINT], 130, ""),
    ],
)
def test_a_signal_lets_running_answers_end_and_a_second_one_does_not(
    tmp_path: Path, drain: str, let_go: bool, signals: list[signal.Signals], code: int, last: str
) -> None:
    go = tmp_path / "go"
    with started(str(Path(__file__).with_name("serving.py")), str(go), drain) as process:
        text, url = "", f"{process.url}/chat/completions"
        http = httpx.Client(timeout=30, trust_env=False, verify=False)
        with http, http.stream("POST", url, json=CHAT) as response:
            pieces = response.iter_lines()
            while "begun" not in next(pieces):
                pass
            process.popen.send_signal(signals[0])
            assert process.until("draining")["running"] == 1
            if let_go:
                refused = http.post(url, json={**CHAT, "stream": False})
                assert refused.status_code == 503
                go.touch()
            for number in signals[1:]:
                process.popen.send_signal(number)
            try:
                text = "\n".join(pieces)
            except httpx.RemoteProtocolError:
                assert len(signals) > 1  # the connection is cut, as asked for
        assert process.popen.wait(30) == code
        assert last in text


def test_a_real_model_answers_both_forms_and_stops_when_nobody_listens() -> None:
    need_local_model()
    env = {"WHIMBREL_LLAMA_THREADS": "1", "WHIMBREL_LLAMA_CONTEXT": "1024"}
    with started("-m", "whimbrel.app.cli", "serve", "llama:smollm2", "--port", "0", env=env) as process:
        client = openai.OpenAI(base_url=process.url, api_key="x", max_retries=0, timeout=60)
        hello: Any = [{"role": "user", "content": "Say hello."}]
        schema = {
            "type": "object",
            "properties": {"colour": {"enum": ["teal"]}, "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
            "required": ["colour", "tags"],
            "additionalProperties": False,
        }  # fmt: skip
        tools: Any = [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}}}
            for name in ("first", "second")
        ]  # fmt: skip
        with client:
            greedy: Any = {"model": "smollm2", "messages": hello, "temperature": 0, "max_tokens": 6}
            whole = client.chat.completions.create(**greedy, logprobs=True, top_logprobs=1)
            stream = list(
                client.chat.completions.create(**greedy, stream=True, stream_options={"include_usage": True})
            )  # pyright: ignore
            text = whole.choices[0].message.content or ""
            assert text and text == "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
            assert stream[-1].usage and stream[-1].usage.completion_tokens == 6
            chances = (whole.choices[0].logprobs and whole.choices[0].logprobs.content) or []
            # The likeliest is chosen each time.
            assert "".join(each.token for each in chances) == text
            assert all(each.token == each.top_logprobs[0].token and each.logprob <= 0 for each in chances)
            stop = text.strip().split()[1]
            stopped = client.chat.completions.create(**greedy, stop=[stop])
            assert stopped.choices[0].message.content == text.partition(stop)[0]
            assert stopped.choices[0].finish_reason == "stop"
            again: Any = {**greedy, "messages": [{"role": "user", "content": "yes " * 30}], "max_tokens": 60}
            said, varied = (
                (client.chat.completions.create(**again, **more).choices[0].message.content or "").split()
                for more in ({}, {"frequency_penalty": 2.0, "extra_body": {"repetition_penalty": 1.8}})
            )
            assert len(set(varied)) / len(varied) > len(set(said)) / len(said)
            formed = client.chat.completions.create(
                model="smollm2",
                messages=hello,
                seed=3,
                response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
            )
            value = json.loads(formed.choices[0].message.content or "")
            assert value["colour"] == "teal" and len(value["tags"]) <= 2
            named = client.chat.completions.create(
                model="smollm2",
                messages=hello,
                tools=tools,
                tool_choice={"type": "function", "function": {"name": "second"}},
                seed=1,
                max_tokens=100,
            )
            (call,) = named.choices[0].message.tool_calls or ()
            assert call.type == "function" and call.function.name == "second"
            assert json.loads(call.function.arguments) == {"n": 7}
            for wrong, part in (
                ({"extra_body": {"structured_outputs": {"regex": "a+"}}}, "structured_outputs.regex"),
                ({"logit_bias": {"5": 1}}, "logit_bias"),
                ({"messages": [{"role": "user", "content": "word " * 2000}]}, "1024"),
                ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "number", "multipleOf": 3}}}}, "multipleOf"),
            ):  # fmt: skip
                with pytest.raises(openai.BadRequestError, match=part):
                    client.chat.completions.create(**{**greedy, **wrong})
            endless = client.chat.completions.create(
                model="smollm2", messages=hello, stream=True, max_tokens=900
            )
            next(iter(endless))
            endless.close()
            # The one slot is free again at once: this would wait for 900 tokens otherwise.
            body = {"model": "smollm2", "messages": hello, "max_tokens": 4}
            message = httpx.post(f"{process.url}/messages", json=body, timeout=30, trust_env=False).json()
            assert message["type"] == "message" and message["stop_reason"] == "max_tokens"
            endless = client.chat.completions.create(
                model="smollm2", messages=hello, stream=True, max_tokens=900
            )
            pieces = iter(endless)
            next(pieces)
            os.kill(_child_of(process.popen.pid), signal.SIGKILL)
            with pytest.raises(openai.APIError, match="failed on this request"):
                list(pieces)
            # The request that was running is lost; the next one has a process of its own.
            again = client.chat.completions.create(**greedy)
            assert again.choices[0].message.content == text
        process.popen.send_signal(signal.SIGTERM)
        lines: list[dict[str, Any]] = []
        while not lines or lines[-1]["event"] != "ended":
            lines.append(process.line())
        assert sum(bool(line.get("aborted")) for line in lines) == 1
        assert process.popen.wait(30) == 0
