"""A model behind an OpenAI-compatible chat-completions server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

import httpx
import openai

from ..chat import (
    Capabilities,
    Effort,
    Message,
    ModelNotice,
    StepDiscarded,
    StreamEvent,
    ToolSpec,
)
from .decode import StepDecoder
from .endpoint import Endpoint
from .failures import MAX_BODY, Failure, RemoteError, classify
from .retry import RetryPolicy
from .sse import MAX_ANSWER_BYTES, AnswerTooLarge, StreamParser
from .wire import encode_messages, encode_tools, estimate_tokens

_OPTIONAL = ("reasoning_effort", "stream_options", "seed", "parallel_tool_calls", "max_completion_tokens")
"""Request fields that a server may refuse; each is left out for good after its first refusal."""

_EFFORTS: dict[Effort, str] = {"low": "low", "high": "high", "max": "high"}


class RemoteModel:
    """Implements ChatModel over HTTP, with the ``openai`` package for the request and our own reading
    of the stream: the package would drop fields and give up on shapes that real servers send.
    """

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
        self._refused: set[str] = set()
        # A server without a key of its own gets none, and only OpenAI learns the OpenAI account.
        left_out = () if endpoint.is_openai else ("OpenAI-Organization", "OpenAI-Project")
        self._left_out = {
            name: openai.Omit() for name in (*left_out, *(() if endpoint.api_key else ("Authorization",)))
        }
        # No redirects: a key must not follow one to another host.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=15.0),
            follow_redirects=False,
            # A stream gains nothing by compression, and small packets may unpack to anything.
            headers={"accept-encoding": "identity"},
            event_hooks={"response": [_bound_error_body]},
        )
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=cast(Any, self._http),
        )

    @property
    def name(self) -> str:
        return f"{self._endpoint.prefix}:{self._endpoint.model}"

    @property
    def context_window(self) -> int | None:
        return None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        return estimate_tokens(history, tools)

    async def close(self) -> None:
        await self._client.close()

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """See ChatModel. Retrying is safe: no tool of a step runs before the step is complete."""
        body = self._body(history, tools, effort, max_output_tokens, seed)
        failed, waited = 0, 0.0
        while True:
            streamed = False
            try:
                async with aclosing(self._attempt(body)) as events:
                    async for event in events:
                        streamed = True
                        yield event
                return
            except RemoteError as error:
                if streamed:
                    yield StepDiscarded(reason=error.message)
                if error.parameter and error.parameter in body:
                    del body[error.parameter]
                    self._refused.add(error.parameter)
                    yield ModelNotice(
                        text=f"{self.name} does not take {error.parameter}; going on without it"
                    )
                    continue
                failed += 1
                delay = self._retry.delay(error, failed, waited)
                if delay is None:
                    raise
                yield ModelNotice(text=f"{error.message}; trying again in {delay:.1f} s")
            await self._sleep(delay)
            waited += delay

    def _body(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        effort: Effort,
        max_output_tokens: int | None,
        seed: int | None,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": encode_messages(history, self._endpoint.provider),
            "stream_options": {"include_usage": True},
            "reasoning_effort": _EFFORTS[effort],
        }
        if tools:
            body["tools"] = encode_tools(tools)
        if max_output_tokens is not None:
            body["max_completion_tokens" if self._endpoint.is_openai else "max_tokens"] = max_output_tokens
        if seed is not None:
            body["seed"] = seed
        return {key: value for key, value in body.items() if key not in self._refused}

    async def _attempt(self, body: dict[str, Any]) -> AsyncGenerator[StreamEvent]:
        parser, decoder = StreamParser(), StepDecoder(self._endpoint.provider)
        try:
            # The whole body goes through extra_body: the typed route walks every message again
            # and knows nothing of reasoning fields.
            async with self._client.chat.completions.with_streaming_response.create(
                model=self._endpoint.model,
                messages=[],
                stream=True,
                extra_body=body,
                extra_headers=self._left_out,
            ) as response:
                async for data in response.iter_bytes():
                    for chunk in parser.feed(data):
                        for event in _checked(decoder, chunk):
                            yield event
                    if parser.done:
                        break
            for chunk in parser.end():
                for event in _checked(decoder, chunk):
                    yield event
        except openai.APIStatusError as error:
            raise classify(
                error.status_code, _text(error.response), dict(error.response.headers), optional=_OPTIONAL
            ) from error
        except AnswerTooLarge as error:
            raise RemoteError(
                Failure.TOO_LARGE,
                f"{self._endpoint.base_url} sent over {MAX_ANSWER_BYTES >> 20} MiB in one answer",
            ) from error
        except (openai.APITimeoutError, httpx.TimeoutException) as error:
            raise RemoteError(Failure.TIMEOUT, f"{self._endpoint.base_url} did not answer in time") from error
        except (openai.APIConnectionError, httpx.HTTPError, httpx.StreamError) as error:
            cut = decoder.has_content
            if decoder.finish_reason is None:
                raise RemoteError(
                    Failure.STREAM_CUT if cut else Failure.CONNECTION,
                    f"{self._endpoint.base_url}: {_cause(error)}",
                ) from error
        if decoder.finish_reason is None and not (parser.done and decoder.has_content):
            if parser.leftover and not decoder.has_content:
                raise classify(None, parser.leftover)
            raise RemoteError(Failure.STREAM_CUT, f"{self._endpoint.base_url} ended its answer in the middle")
        if parser.damaged:
            raise RemoteError(
                Failure.STREAM_CUT, f"{self._endpoint.base_url} sent a damaged piece of its answer"
            )
        for event in decoder.finish():
            yield event


def _checked(decoder: StepDecoder, chunk: dict[str, Any]) -> list[StreamEvent]:
    """Events of a chunk; an error object inside a 200 stream is raised as what it is."""
    if chunk.get("error") or chunk.get("object") == "error":
        raise classify(None, json.dumps(chunk), optional=_OPTIONAL)
    return list(decoder.feed(chunk))


async def _bound_error_body(response: httpx.Response) -> None:
    """The body of a refusal is read to its end by the ``openai`` package: no more of it than we look at."""
    if response.status_code >= 300 and isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _FirstBytes(response.stream, MAX_BODY)


class _FirstBytes(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            yield data[: self._left]
            self._left -= len(data)
            if self._left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


def _text(response: Any) -> str:
    try:
        return str(response.text)
    except Exception as error:  # noqa: BLE001 - the body is only there to explain a failure we already have
        return f"unreadable error body ({type(error).__name__})"


def _cause(error: BaseException) -> str:
    if isinstance(error.__cause__, httpx.HTTPError):
        error = error.__cause__
    if isinstance(error, httpx.RemoteProtocolError):
        return f"what it sends is not proper HTTP ({' '.join(str(error).split())[:120]})"
    if isinstance(error, httpx.DecodingError):
        return "its answer cannot be unpacked"
    if isinstance(error, httpx.ReadError):
        return "the connection broke"
    inner = error.__cause__ or error
    return " ".join(str(inner).split()) or type(inner).__name__
