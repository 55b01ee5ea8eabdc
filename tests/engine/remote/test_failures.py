"""Errors of endpoints: classified, retried where that helps, told in one line."""

from __future__ import annotations

import email.utils
import json
import time
from typing import Any

import pytest
from whimbrel.engine.chat import ModelNotice, StreamEvent, TextDelta, user
from whimbrel.engine.models import load_model
from whimbrel.engine.remote.client import RemoteModel
from whimbrel.engine.remote.endpoint import resolve
from whimbrel.engine.remote.failures import Failure, RemoteError, classify
from whimbrel.engine.remote.retry import RetryPolicy

from ...mock_server import MockServer, Reply, Request, chunk, completion, error, sse, stream

pytestmark = pytest.mark.timeout(60)

OVERFLOWS = [
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4096 tokens. However, you requested 5000"
            }
        },
    ),
    (
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
        },
    ),
    (
        422,
        {
            "detail": [
                {"loc": ["body"], "msg": "Requested token count exceeds the model's maximum context length"}
            ]
        },
    ),
    (
        500,
        {
            "error": {
                "message": "the request exceeds the available context size (4096 tokens), try increasing it"
            }
        },
    ),
    (400, {"error": {"code": "context_length_exceeded", "message": "Please shorten your input"}}),
    (413, "Request Entity Too Large"),
    (400, {"error": {"message": "Invalid request: Your request exceeded model token limit: 262144"}}),
    (400, {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens"}}),
    (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"}),
    (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000"}),
    (400, {"message": "The input (9000 tokens) is longer than the model's context length (4096 tokens)."}),
    (400, {"message": "Prompt contains 9000 tokens, too large for model with 8192 maximum"}),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (400, {"error": {"message": "输入长度超过模型最大上下文长度 8192 tokens"}}),
    (500, {"error": {"message": "Input length (9001) exceeds the maximum allowed length (8192)"}}),
    (400, {"message": "La longitud máxima de contexto es de 4096 tokens"}),
    (400, {"error": "Sequence length of 5000 tokens is larger than 4096"}),
]


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_every_way_of_saying_that_the_context_is_full_is_recognised(status: int, body: Any) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    assert classify(status, text).failure is Failure.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    ("status", "message", "failure"),
    [
        (401, "Incorrect API key provided", Failure.AUTH),
        (403, "forbidden", Failure.AUTH),
        (400, "messages[1].content must be a string", Failure.BAD_REQUEST),
        (400, "tool name exceeds 64 characters", Failure.BAD_REQUEST),
        (400, "stop sequences: at most 4, and no length over 20", Failure.BAD_REQUEST),
        (404, "The model `x` does not exist", Failure.BAD_REQUEST),
        (429, "Rate limit reached for requests", Failure.RATE_LIMIT),
        (429, "You exceeded your current quota, please check your plan and billing details", Failure.QUOTA),
        (402, "Insufficient Balance", Failure.QUOTA),
        (503, "Service Unavailable", Failure.OVERLOADED),
        (529, "Overloaded", Failure.OVERLOADED),
        (500, "Internal Server Error", Failure.SERVER),
        (504, "upstream timed out", Failure.TIMEOUT),
    ],
)
def test_statuses_and_messages_map_to_classes(status: int, message: str, failure: Failure) -> None:
    assert classify(status, json.dumps({"error": {"message": message}})).failure is failure


def test_the_innermost_of_nested_errors_is_what_people_see() -> None:
    inner = json.dumps({"error": {"message": "tokenizer file is missing", "code": 500}})
    outer = json.dumps({"error": {"message": f"Provider returned error: {inner}", "code": 502}})
    assert "tokenizer file is missing" in classify(502, outer).message
    assert "Provider" not in classify(502, outer).message


def test_retry_after_is_read_as_seconds_milliseconds_or_a_date() -> None:
    assert classify(429, "", {"Retry-After": "7"}).retry_after_s == 7
    assert classify(429, "", {"retry-after-ms": "1500"}).retry_after_s == 1.5
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    waiting = classify(429, "", {"retry-after": date}).retry_after_s
    assert waiting is not None and 50 < waiting <= 60
    assert classify(429, "", {"retry-after": "soon"}).retry_after_s is None


def test_a_key_in_an_error_text_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-5512-xyz")
    assert "canary" not in classify(401, "Incorrect API key: SK-Canary-5512-xyz").one_line().lower()


class Play:
    """Runs one step against scripted replies, recording the waits instead of waiting."""

    def __init__(
        self, *replies: Reply, environ: dict[str, str] | None = None, policy: RetryPolicy | None = None
    ) -> None:
        self._replies = replies
        self._environ = environ or {}
        self._policy = policy
        self.waits: list[float] = []
        self.requests: list[Request] = []
        self.events: list[StreamEvent] = []

    async def run(self, steps: int = 1) -> Play:
        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        with MockServer(self._replies) as server:
            endpoint = resolve("vllm", "m", server.url, self._environ)
            model = RemoteModel(endpoint, sleep=sleep, retry=self._policy)
            self.requests = server.requests
            try:
                for _ in range(steps):
                    async for event in model.stream([user("hi")], [], seed=3):
                        self.events.append(event)
            finally:
                await model.close()
        return self

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))


async def test_a_rate_limit_waits_as_long_as_it_was_told_and_goes_on() -> None:
    play = await Play(
        error(429, {"error": {"message": "slow down"}}, retry_after="7"), completion(text="ok")
    ).run()
    assert play.waits == [7.0] and play.text == "ok"
    assert any(isinstance(event, ModelNotice) and "7.0 s" in event.text for event in play.events)


async def test_an_overloaded_server_is_asked_again_with_growing_waits_and_then_given_up() -> None:
    play = Play(*[error(503, "busy")] * 9)
    with pytest.raises(RemoteError) as caught:
        await play.run()
    assert caught.value.failure is Failure.OVERLOADED and caught.value.exit_code == 8
    assert len(play.requests) == 5 and len(play.waits) == 4
    assert play.waits == sorted(play.waits)


@pytest.mark.parametrize(
    "reply",
    [
        error(
            429, {"error": {"message": "insufficient quota", "code": "insufficient_quota"}}, retry_after="1"
        ),
        error(401, {"error": {"message": "bad key"}}),
        error(400, {"error": {"message": "bad message"}}),
    ],
)
async def test_what_waiting_cannot_cure_is_not_retried(reply: Reply) -> None:
    play = Play(reply, completion(text="never asked"))
    with pytest.raises(RemoteError):
        await play.run()
    assert len(play.requests) == 1 and play.waits == []


async def test_a_retry_after_beyond_all_patience_is_given_up_at_once() -> None:
    play = Play(error(429, "later", retry_after="86400"), completion(text="never"))
    with pytest.raises(RemoteError):
        await play.run()
    assert len(play.requests) == 1 and play.waits == []


async def test_a_cut_stream_is_asked_again_only_twice_because_it_was_billed() -> None:
    play = Play(*[stream(chunk({"content": "half"}), done=False)] * 9)
    with pytest.raises(RemoteError) as caught:
        await play.run()
    assert caught.value.failure is Failure.STREAM_CUT
    assert len(play.requests) == 3
    assert [event.kind for event in play.events].count("step_discarded") == 3


async def test_an_error_object_inside_a_good_stream_is_recognised() -> None:
    broken = stream(chunk({"content": "so f"}), sse({"error": {"message": "engine overloaded", "code": 503}}))
    play = await Play(broken, completion(text="fine")).run()
    assert play.text.endswith("fine")
    assert "step_discarded" in [event.kind for event in play.events]


async def test_a_refused_parameter_is_left_out_from_then_on_and_told_once() -> None:
    refusal = error(
        400, {"error": {"message": "Unsupported parameter: 'reasoning_effort'", "param": "reasoning_effort"}}
    )
    fastapi = error(422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]})
    play = await Play(refusal, fastapi, completion(text="a"), completion(text="b")).run(steps=2)
    assert play.text == "ab" and play.waits == []
    sent = [("reasoning_effort" in request.body, "seed" in request.body) for request in play.requests]
    assert sent == [(True, True), (False, True), (False, False), (False, False)]
    notices = [event.text for event in play.events if isinstance(event, ModelNotice)]
    assert len(notices) == 2 and "reasoning_effort" in notices[0] and "seed" in notices[1]


async def test_a_model_that_cannot_think_is_used_without_effort() -> None:
    refusal = error(400, {"error": {"message": '"small:1b" does not support thinking', "type": "api_error"}})
    play = await Play(refusal, completion(text="fine")).run()
    assert play.text == "fine" and "reasoning_effort" not in play.requests[1].body


async def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    model = load_model("vllm:m@http://127.0.0.1:9/v1", environ={})
    assert isinstance(model, RemoteModel)
    policy_free = RemoteModel(
        resolve("vllm", "m", "http://127.0.0.1:9/v1", {}), retry=RetryPolicy(attempts=1)
    )
    with pytest.raises(RemoteError) as caught:
        async for _ in policy_free.stream([user("hi")], []):
            pass
    assert caught.value.failure is Failure.CONNECTION
    assert "http://127.0.0.1:9/v1" in caught.value.one_line() and "\n" not in caught.value.one_line()
    await policy_free.close()
    await model.close()


async def test_a_silent_server_is_a_timeout() -> None:
    import threading

    from ...mock_server import Pause

    release = threading.Event()
    with MockServer([Reply(pieces=[chunk({"content": "x"}), Pause(release)])]) as server:
        model = RemoteModel(
            resolve("vllm", "m", server.url, {}), retry=RetryPolicy(attempts=1), timeout_s=0.3
        )
        with pytest.raises(RemoteError) as caught:
            async for _ in model.stream([user("hi")], []):
                pass
        release.set()
        await model.close()
    assert caught.value.failure is Failure.TIMEOUT


async def test_the_key_goes_out_as_bearer_and_without_a_key_no_header_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody-else")
    with_key = await Play(
        completion(text="x"), environ={"WHIMBREL_API_KEY": "k-123", "VLLM_API_KEY": "k-456"}
    ).run()
    assert with_key.requests[0].headers["authorization"] == "Bearer k-123"
    without = await Play(completion(text="x")).run()
    assert not {"authorization", "openai-organization"} & set(without.requests[0].headers)
