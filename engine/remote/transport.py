"""One request to a chat server over HTTP, and its answer as stream events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import openai

from ..chat import StreamEvent
from .decode import StepDecoder
from .endpoint import Endpoint, is_loopback
from .failures import MAX_BODY, Failure, RemoteError, classify
from .learned import CORE
from .sse import MAX_ANSWER_BYTES, AnswerTooLarge, StreamParser

MAX_DOCUMENT_BYTES = 8 << 20
"""Of a plain JSON document (a list of models can be long)."""


class Transport:
    """Requests by the ``openai`` package, and our own reading of the stream: the package would
    drop fields and give up on shapes that real servers send.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float = 600.0) -> None:
        """``timeout_s`` is the longest silence of the server, not the length of an answer."""
        self._asked_why = False
        self.endpoint = endpoint
        # A server without a key of its own gets none, and only OpenAI learns the OpenAI account.
        left_out = () if endpoint.is_openai else ("OpenAI-Organization", "OpenAI-Project")
        self._left_out = {
            name: openai.Omit() for name in (*left_out, *(() if endpoint.api_key else ("Authorization",)))
        }
        # No redirects: a key must not follow one to another host.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=15.0),
            follow_redirects=False,
            # Nor may a proxy of the environment see what goes to a server on this machine.
            trust_env=not is_loopback(urlsplit(endpoint.base_url).hostname or ""),
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

    async def close(self) -> None:
        await self._client.close()

    async def attempt(self, body: dict[str, Any]) -> AsyncGenerator[StreamEvent]:
        """One streamed completion; the last event is ``Finished``.

        Raises:
            RemoteError: whatever went wrong, classified.
        """
        parser, decoder = StreamParser(), StepDecoder(self.endpoint.provider)
        optional = tuple(key for key in body if key not in CORE)
        url = self.endpoint.base_url
        try:
            # The whole body goes through extra_body: the typed route walks every message again
            # and knows nothing of reasoning fields.
            async with self._client.chat.completions.with_streaming_response.create(
                model=self.endpoint.model,
                messages=[],
                stream=True,
                extra_body=body,
                extra_headers=self._left_out,
            ) as response:
                async for data in response.iter_bytes():
                    for chunk in parser.feed(data):
                        for event in _checked(decoder, chunk, optional):
                            yield event
                    if parser.done:
                        break
            for chunk in parser.end():
                for event in _checked(decoder, chunk, optional):
                    yield event
        except openai.APIStatusError as error:
            raise classify(
                error.status_code, _text(error.response), dict(error.response.headers), optional=optional
            ) from error
        except AnswerTooLarge as error:
            raise RemoteError(
                Failure.TOO_LARGE, f"{url} sent over {MAX_ANSWER_BYTES >> 20} MiB in one answer"
            ) from error
        except (openai.APITimeoutError, httpx.TimeoutException) as error:
            raise RemoteError(Failure.TIMEOUT, f"{url} did not answer in time") from error
        except (openai.APIConnectionError, httpx.HTTPError, httpx.StreamError) as error:
            cut = decoder.has_content
            if decoder.finish_reason is None:
                raise RemoteError(
                    Failure.STREAM_CUT if cut else Failure.CONNECTION, f"{url}: {_cause(error)}"
                ) from error
        if decoder.finish_reason is None and not (parser.done and decoder.has_content):
            if parser.leftover and not decoder.has_content:
                raise classify(None, parser.leftover)
            if parser.silent and not self._asked_why:
                self._asked_why = True
                await self._ask_why(body)
            raise RemoteError(Failure.STREAM_CUT, f"{url} ended its answer in the middle")
        if parser.damaged:
            raise RemoteError(Failure.STREAM_CUT, f"{url} sent a damaged piece of its answer")
        self._asked_why = False
        for event in decoder.finish():
            yield event

    async def _ask_why(self, body: dict[str, Any]) -> None:
        """Raises what a server says of a request to which it has streamed nothing.

        Some check a request only when its stream has begun (llama_cpp.server: too long a prompt), and
        then it just ends. Asked without a stream, and for one token, they say why.
        """
        limit = next((name for name in ("max_tokens", "max_completion_tokens") if name in body), "max_tokens")
        plain = {key: value for key, value in body.items() if key != "stream_options"}
        question = {"model": self.endpoint.model, **plain, "stream": False, limit: 1}
        # Twice: the connection on which the stream ended may end as well, a moment later.
        for _ in range(2):
            try:
                await self.document("chat/completions", post=question)
                return
            except RemoteError as error:
                if error.failure is Failure.CONNECTION:
                    continue
                if error.failure.retryable or error.failure in (Failure.ADDRESS, Failure.TOO_LARGE):
                    return
                raise

    async def document(self, path: str, *, root: bool = False, post: dict[str, Any] | None = None) -> Any:
        """A JSON document of the server.

        Args:
            path: below the base address, or below the server's root.
            post: the body, where the document is asked for by POST.

        Raises:
            RemoteError: whatever went wrong, classified.
        """
        base = self.endpoint.base_url
        if root:
            parts = urlsplit(base)
            base = f"{parts.scheme}://{parts.netloc}"
        url = f"{base}/{path.lstrip('/')}"
        key = self.endpoint.api_key
        headers = {"accept": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        try:
            request = self._http.build_request("POST" if post else "GET", url, headers=headers, json=post)
            response = await self._http.send(request, stream=True)
            try:
                data = b""
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > MAX_DOCUMENT_BYTES:
                        raise RemoteError(Failure.TOO_LARGE, f"{url} sent over 8 MiB")
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            raise RemoteError(Failure.TIMEOUT, f"{url} did not answer in time") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise RemoteError(Failure.CONNECTION, f"{url}: {_cause(error)}") from error
        text = data.decode("utf-8", "replace")
        if response.status_code >= 300:
            raise classify(response.status_code, text, dict(response.headers))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            failure = classify(None, text)
            if failure.failure is Failure.ADDRESS:
                raise failure from error
            raise RemoteError(Failure.ADDRESS, f"{url} sent no JSON") from error


def _checked(decoder: StepDecoder, chunk: dict[str, Any], optional: tuple[str, ...]) -> list[StreamEvent]:
    """Events of a chunk; an error object inside a 200 stream is raised as what it is."""
    if chunk.get("error") or chunk.get("object") == "error":
        raise classify(None, json.dumps(chunk), optional=optional)
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
