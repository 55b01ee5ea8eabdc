"""A model behind the Anthropic Messages API, or behind another server that speaks this form."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import httpx

from ..chat import (
    Capabilities,
    Effort,
    Message,
    ModelNotice,
    StepDiscarded,
    StreamEvent,
    ToolSpec,
    Usage,
)
from ..remote.endpoint import Endpoint
from ..remote.failures import MAX_BODY, Failure, RemoteError, classify
from ..remote.retry import RetryPolicy
from ..remote.sse import MAX_ANSWER_BYTES, AnswerTooLarge, StreamParser
from ..remote.wire import estimate_tokens
from .decode import PAUSED, StepDecoder, plus
from .encode import (
    encode_history,
    encode_tools,
    mark_for_cache,
    open_round_without_thinking,
    without_thinking,
)
from .endpoint import HOST

VERSION = "2023-06-01"
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_WINDOW = 200_000
"""Tokens; every model of api.anthropic.com has at least these."""
_BUDGETS: dict[Effort, int] = {"low": 1024, "high": 8000, "max": 24000}
_LEAST_BUDGET = 1024
"""Of the API."""
_ANSWER = 8000
"""Tokens for the answer, beside those for thinking: ``max_tokens`` counts both."""
_PAUSES = 8
_TOO_MANY = re.compile(r"max_tokens:? (\d+) > (\d+)")


class AnthropicModel:
    """Implements ChatModel over the Messages API, with our own reading of the stream."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timeout_s: float = 600.0,
    ) -> None:
        """``timeout_s`` is the longest silence of the server, not the length of an answer."""
        self._endpoint = endpoint
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        base = endpoint.base_url
        self._url = f"{base if base.endswith('/v1') else base + '/v1'}/messages"
        self._official = httpx.URL(base).host == HOST
        self._most: int | None = None
        """``max_tokens`` that the model does not go beyond, once it has said so."""
        self._adaptive = False
        self._refused: set[str] = set()
        self._told: set[str] = set()
        headers = {
            "anthropic-version": VERSION,
            "content-type": "application/json",
            # A stream gains nothing by compression, and small packets may unpack to anything.
            "accept-encoding": "identity",
        }
        if endpoint.api_key:
            headers["x-api-key"] = endpoint.api_key
        if self._official:
            headers["anthropic-beta"] = _INTERLEAVED
        # No redirects: a key must not follow one to another host.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=15.0), follow_redirects=False, headers=headers
        )

    @property
    def name(self) -> str:
        return f"{self._endpoint.prefix}:{self._endpoint.model}"

    @property
    def context_window(self) -> int | None:
        return _WINDOW if self._official else None

    @property
    def capabilities(self) -> Capabilities:
        if not self._official:
            return Capabilities()
        return Capabilities(tools=True, parallel_tools=True, images=True)

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        return estimate_tokens(history, tools)

    async def close(self) -> None:
        await self._http.aclose()

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """See ChatModel; the API takes no seed. A step is tried again as a whole."""
        body, notice = self._body(history, tools, effort, max_output_tokens)
        if notice and notice not in self._told:
            self._told.add(notice)
            yield ModelNotice(text=notice)
        asked: list[dict[str, Any]] = body["messages"]
        failed, waited, pauses = 0, 0.0, 0
        changed: set[str] = set()
        spent: Usage | None = None
        streamed = False
        while True:
            decoder = StepDecoder(self._endpoint.provider)
            try:
                async with aclosing(self._attempt(body, decoder)) as events:
                    async for event in events:
                        streamed = True
                        yield event
            except RemoteError as error:
                if streamed:
                    yield StepDiscarded(reason=error.message)
                    streamed = False
                if body["messages"] is not asked:
                    body["messages"] = asked
                    spent = plus(spent, decoder.usage())
                if change := self._adapt(error, body, effort, changed):
                    asked = body["messages"]
                    yield ModelNotice(text=f"{self.name}: {change}")
                    continue
                failed += 1
                delay = self._retry.delay(error, failed, waited)
                if delay is None:
                    raise
                yield ModelNotice(text=f"{error.message}; trying again in {delay:.1f} s")
                await self._sleep(delay)
                waited += delay
                continue
            spent = plus(spent, decoder.usage())
            if decoder.stop_reason == PAUSED and pauses < _PAUSES and decoder.blocks:
                pauses += 1
                so_far = {"role": "assistant", "content": decoder.blocks}
                body["messages"] = [*body["messages"], so_far]
                continue
            if spent is not None:
                prices = self._endpoint.prices
                yield prices.complete(spent) if prices else spent
            yield decoder.finished()
            return

    def _body(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        effort: Effort,
        max_output_tokens: int | None,
    ) -> tuple[dict[str, Any], str]:
        """The request, and what a person should know about it."""
        system, messages = encode_history(history, self._endpoint.provider, unsigned=not self._official)
        specs = encode_tools(tools)
        budget = _BUDGETS[effort]
        most = budget + _ANSWER if max_output_tokens is None else max_output_tokens
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "max_tokens": min(most, self._most or most),
            "stream": True,
        }
        notice = ""
        if "thinking" in self._refused or not self._endpoint.thinking:
            messages = without_thinking(messages)
        elif self._adaptive:
            self._think_adaptively(body, effort)
        elif open_round_without_thinking(messages):
            notice = f"{self.name} does not think until the calls of another model's turn are answered"
        else:
            _think(body, budget)
        if "cache_control" not in self._refused:
            mark_for_cache(system, specs, messages)
        if system:
            body["system"] = system
        if specs:
            body["tools"] = specs
        return {**body, **self._endpoint.extra_body, "messages": messages}, notice

    def _think_adaptively(self, body: dict[str, Any], effort: Effort) -> None:
        body["thinking"] = {"type": "adaptive"}
        if "output_config" not in self._refused:
            body["output_config"] = {"effort": effort}

    def _adapt(self, error: RemoteError, body: dict[str, Any], effort: Effort, changed: set[str]) -> str:
        """Changes a refused request so that it may pass; says how, or "" when there is no way.

        Each change is tried once a step; what a model does not take is left out of later steps too.
        """
        if error.failure not in (
            Failure.BAD_REQUEST,
            Failure.UNSUPPORTED_PARAMETER,
            Failure.CONTEXT_OVERFLOW,
        ):
            return ""
        said = error.detail
        limit = _TOO_MANY.search(said)
        if limit and "limit" not in changed and int(limit[2]) < body["max_tokens"]:
            changed.add("limit")
            self._most = body["max_tokens"] = int(limit[2])
            if "budget_tokens" in body.get("thinking", {}):
                _think(body, body["thinking"]["budget_tokens"])
            return f"answers are limited to {self._most} tokens"
        if error.failure is Failure.CONTEXT_OVERFLOW:
            return ""
        thinking = body.get("thinking", {})
        if "signature" in said and "history" not in changed:
            changed.add("history")
            body["messages"] = without_thinking(body["messages"])
            body.pop("thinking", None)
            return "thinking of earlier steps is refused; going on without it"
        if "Expected `thinking`" in said and thinking:
            del body["thinking"]
            return "this step goes without thinking, since its turn began without"
        if re.search(r"\buse\b.*adaptive", said, re.IGNORECASE) and thinking.get("type") == "enabled":
            self._adaptive = True
            self._think_adaptively(body, effort)
            return "thinks as much as it finds right; only the effort is set"
        if re.search(r"output_config|\beffort\b", said) and "output_config" in body:
            self._refused.add("output_config")
            del body["output_config"]
            return "takes no effort; going on without it"
        if re.search(r"thinking|budget_tokens", said) and thinking:
            self._refused.add("thinking")
            for name in ("thinking", "output_config"):
                body.pop(name, None)
            body["messages"] = without_thinking(body["messages"])
            return "cannot think; going on without it"
        if "cache_control" in said and "cache_control" not in self._refused:
            self._refused.add("cache_control")
            _unmark(body)
            return "takes no cache marks; going on without them"
        return ""

    async def _attempt(self, body: dict[str, Any], decoder: StepDecoder) -> AsyncGenerator[StreamEvent]:
        parser = StreamParser()
        where = self._endpoint.base_url
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            async with self._http.stream("POST", self._url, content=content) as response:
                if response.status_code != 200:
                    text = await _beginning(response)
                    raise classify(response.status_code, text, dict(response.headers))
                async for data in response.aiter_bytes():
                    for value in parser.feed(data):
                        for event in _checked(decoder, value):
                            yield event
                    if decoder.done:
                        break
            for value in parser.end():
                for event in _checked(decoder, value):
                    yield event
        except AnswerTooLarge as error:
            raise RemoteError(
                Failure.TOO_LARGE, f"{where} sent over {MAX_ANSWER_BYTES >> 20} MiB in one answer"
            ) from error
        except httpx.TimeoutException as error:
            raise RemoteError(Failure.TIMEOUT, f"{where} did not answer in time") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            if not decoder.stop_reason:
                cut = Failure.STREAM_CUT if decoder.has_content else Failure.CONNECTION
                raise RemoteError(cut, f"{where}: {_cause(error)}") from error
        if not (decoder.done or decoder.stop_reason):
            if parser.leftover and not decoder.has_content:
                raise classify(None, parser.leftover)
            raise RemoteError(Failure.STREAM_CUT, f"{where} ended its answer in the middle")
        if parser.damaged:
            raise RemoteError(Failure.STREAM_CUT, f"{where} sent a damaged piece of its answer")
        for event in decoder.rest():
            yield event


def _think(body: dict[str, Any], budget: int) -> None:
    """Sets the budget, leaving a part of ``max_tokens`` to the answer; no thinking where it is too small."""
    room = body["max_tokens"] - min(_ANSWER, body["max_tokens"] // 2)
    if min(budget, room) < _LEAST_BUDGET:
        body.pop("thinking", None)
    else:
        body["thinking"] = {"type": "enabled", "budget_tokens": min(budget, room)}


def _unmark(body: dict[str, Any]) -> None:
    lists = [body.get("system", []), body.get("tools", []), *(each["content"] for each in body["messages"])]
    for blocks in lists:
        for number, block in enumerate(blocks):
            if "cache_control" in block:
                blocks[number] = {key: value for key, value in block.items() if key != "cache_control"}


def _checked(decoder: StepDecoder, event: dict[str, Any]) -> list[StreamEvent]:
    """Stream events; an error inside a 200 stream is raised as what it is."""
    if event.get("type") == "error" or event.get("error"):
        raise classify(None, json.dumps(event))
    return list(decoder.feed(event))


async def _beginning(response: httpx.Response) -> str:
    """The first bytes of a refusal; nobody reads a page without end."""
    data = b""
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) >= MAX_BODY:
            break
    return data[:MAX_BODY].decode("utf-8", "replace")


def _cause(error: BaseException) -> str:
    if isinstance(error, httpx.RemoteProtocolError):
        return f"what it sends is not proper HTTP ({' '.join(str(error).split())[:120]})"
    if isinstance(error, httpx.ReadError):
        return "the connection broke"
    return " ".join(str(error).split()) or type(error).__name__
