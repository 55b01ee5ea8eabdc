"""The streamable HTTP transport with bounded answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from .config import McpServer
from .stdio import MAX_LINE_BYTES


class _Bounded(httpx2.AsyncByteStream):
    """A response body that fails beyond the limit instead of filling memory."""

    def __init__(self, inner: Any, limit: int) -> None:
        self._inner = inner
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.StreamError(f"the answer is larger than {MAX_LINE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        kind = response.headers.get("content-type", "")
        # An event stream is bounded event by event; it may live as long as the server.
        if not kind.startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, MAX_LINE_BYTES)
        return response


@asynccontextmanager
async def http_streams(server: McpServer) -> AsyncGenerator[tuple[Any, Any]]:
    """The message streams of a server at an address."""
    limits = httpx2.Timeout(server.start_timeout_s, read=max(300.0, server.timeout_s))
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=limits, transport=_Transport()) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_LINE_BYTES) as streams,
    ):
        yield streams
