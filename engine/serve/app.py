"""The HTTP application: which path does what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from .admission import Admission
from .answer import ClientGone, Patience, Receive, Send, Writer, answer, send_json
from .anthropic_read import read_messages
from .anthropic_write import MessageWriter
from .backend import Backend, GenerationRequest, OutOfOrder
from .failing import Problem
from .fields import read_object
from .gate import Gate, form_of
from .job import Job
from .metrics import CONTENT_TYPE, Metrics
from .openai_read import Asked, read_chat
from .openai_write import ChatWriter
from .record import Record

_LARGE = 256 << 10
"""Bytes of a body from which on it is read in another thread."""

Reader = Callable[[dict[str, Any], str], Asked]


@dataclass(frozen=True)
class Limits:
    """What one client may ask of everybody's server."""

    concurrent: int = 32
    queue: int = 128
    body_bytes: int = 32 << 20
    patience: Patience = field(default_factory=Patience)


class Server:
    """The application with what it needs to know; ``asgi`` is what a web server runs."""

    def __init__(
        self, backend: Backend, *, version: str, limits: Limits | None = None, keys: Sequence[str] = ()
    ) -> None:
        self.backend = backend
        self.limits = limits or Limits()
        most = self.limits.concurrent
        if backend.max_concurrent is not None:
            most = min(most, backend.max_concurrent)
        self.admission = Admission(most, self.limits.queue)
        self.metrics = Metrics(backend, self.admission)
        self._version = version
        self._began = int(time.time())
        chat = _Generation(self, read_chat, ChatWriter)
        messages = _Generation(self, read_messages, MessageWriter)
        routes = [
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/messages", messages, methods=["POST"]),
            Route("/v1/messages/count_tokens", _Counting(self), methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/version", self._show_version, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]
        self.asgi = Gate(_Paths(routes), keys, self.metrics)

    def know(self, model: str) -> None:
        """Raises Problem: another model than this one is asked for."""
        if model not in self.backend.names:
            raise Problem(
                404,
                f"the model {model[:200]!r} does not exist here; there is {self.backend.names[0]!r}",
                "model_not_found",
                "model",
            )

    def entry(self, name: str) -> dict[str, Any]:
        """One model in the lists of both APIs."""
        return {
            "id": name,
            "object": "model",
            "created": self._began,
            "owned_by": "whimbrel",
            "max_model_len": self.backend.context_window,
            "type": "model",
            "display_name": name,
            "created_at": datetime.fromtimestamp(self._began, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    async def _models(self, _: Request) -> Response:
        names = list(self.backend.names)
        value = {
            "object": "list",
            "data": [self.entry(name) for name in names],
            "has_more": False,
            "first_id": names[0],
            "last_id": names[-1],
        }
        return JSONResponse(value)

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.know(name)
        return JSONResponse(self.entry(name))

    async def _health(self, _: Request) -> Response:
        trouble = self.backend.trouble()
        return JSONResponse({"status": trouble or "ok"}, status_code=503 if trouble else 200)

    async def _ready(self, _: Request) -> Response:
        trouble = "draining" if self.admission.draining else self.backend.trouble()
        trouble = trouble or ("the queue is full" if self.admission.full else "")
        return JSONResponse({"status": trouble or "ready"}, status_code=503 if trouble else 200)

    async def _show_version(self, _: Request) -> Response:
        return JSONResponse({"version": self._version, "name": "whimbrel"})

    async def _metrics(self, _: Request) -> Response:
        return Response(self.metrics.page(), media_type=CONTENT_TYPE)

    async def body(self, scope: Any, receive: Receive) -> dict[str, Any]:
        """The JSON object that a request carries.

        Raises:
            ClientGone: it left in the middle.
            Problem: too large, too slow, or of another kind than JSON.
        """
        most = self.limits.body_bytes
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        kind = headers.get(b"content-type", "application/json").partition(";")[0].strip().lower()
        # What a web page can send without asking first is none of these.
        if kind != "application/json":
            raise Problem(415, "the body must be of type application/json", "unsupported_media_type")
        if headers.get(b"content-encoding", "identity") != "identity":
            raise Problem(415, "the body must not be compressed", "unsupported_encoding")
        length = headers.get(b"content-length", "0")
        if (length.isdigit() and int(length[:20]) > most) or len(length) > 20:
            raise _too_large(most)
        data = bytearray()
        try:
            async with asyncio.timeout(self.limits.patience.body_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    data += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(data) > most:
                        raise _too_large(most)
        except TimeoutError as error:
            raise Problem(408, "the body did not arrive in time", "timeout") from error
        if len(data) < _LARGE:
            return read_object(bytes(data))
        return await asyncio.to_thread(read_object, bytes(data))


class _Generation:
    """POST of a conversation, answered by the model."""

    def __init__(self, server: Server, read: Reader, writer: Callable[[Asked], Writer]) -> None:
        self._server = server
        self._read = read
        self._writer = writer

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        server = self._server
        record: Record = scope["state"]["record"]
        server.admission.check()
        asked = self._read(await server.body(scope, receive), record.id)
        server.know(asked.model)
        if server.backend.trouble():
            raise OutOfOrder
        server.backend.check(asked.request)
        record.generated = True
        await answer(
            Job(server.backend, server.admission, asked.request, record),
            self._writer(asked),
            stream=asked.stream,
            form=form_of(scope["path"]),
            record=record,
            receive=receive,
            send=send,
            patience=server.limits.patience,
        )


class _Counting:
    """POST of a conversation, whose tokens are counted."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        record: Record = scope["state"]["record"]
        self._server.admission.check()
        body = await self._server.body(scope, receive)
        asked = read_messages(body, record.id, count_only=True)
        self._server.know(asked.model)
        request: GenerationRequest = replace(asked.request, max_tokens=None)
        await send_json(send, 200, {"input_tokens": await self._server.backend.count_tokens(request)})


def _too_large(most: int) -> Problem:
    return Problem(413, f"the body is larger than {most} bytes", "body_too_large")


class _Paths:
    """ASGI: the routes, whose failures all go up to the gate, which gives them the form of the API."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        scope["app"] = self  # without it the router answers in plain text by itself
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            path = scope.get("path", "")[:200]
            if error.status_code == 405:
                text, code = f"{path} takes {(error.headers or {}).get('Allow')} only", "method_not_allowed"
            else:
                text, code = f"{scope.get('method')} {path} is not there", "not_found"
            raise Problem(error.status_code, text, code, headers=dict(error.headers or {})) from error
