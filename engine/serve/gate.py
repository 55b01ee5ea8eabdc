"""Before any request: its number, who may ask, and what is noted when it is over."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .answer import GONE, ClientGone, Receive, Send, send_json
from .failing import Form, Problem, problem_of
from .logs import say
from .record import Record

if TYPE_CHECKING:
    from .metrics import Metrics

OPEN = frozenset(["/health", "/ready"])
"""Asked by load balancers, which have no key."""
PATHS = frozenset(
    [
        *OPEN,
        "/metrics",
        "/version",
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/models",
    ]
)
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OURS = ("internal_error", "model_failed")
"""Errors that are not the client's."""
_QUIET = frozenset([*OPEN, "/metrics"])
"""Asked every few seconds: not worth a line while all is well."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def form_of(path: str) -> Form:
    return "anthropic" if path.startswith("/v1/messages") else "openai"


class Gate:
    """ASGI: wraps the application."""

    def __init__(self, app: Any, keys: Sequence[str], metrics: Metrics) -> None:
        """Without keys only this machine's own programs may ask, and no web page in a browser on it."""
        self._app = app
        self._keys = [hashlib.sha256(key.encode()).digest() for key in keys]
        self._metrics = metrics

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        record = self._record(scope["path"], scope["method"], headers)
        scope.setdefault("state", {})["record"] = record
        started = False

        async def watched(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                record.status = message["status"]
                number = record.id.encode()
                extra = [(b"x-request-id", number), (b"request-id", number)]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        try:
            self._check(scope["path"], headers)
            await self._app(scope, receive, watched)
        except ClientGone:
            record.aborted = True
            record.status = record.status or GONE
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this request only
            problem = problem_of(error)
            record.error = problem.code
            record.cause = _cause(error) if problem.status == 500 else ""
            if not started:
                body = problem.body(form_of(scope["path"]), record.id)
                try:
                    await send_json(watched, problem.status, body, problem.headers)
                except OSError:
                    record.aborted = True
        finally:
            self._note(record)

    def _record(self, path: str, method: str, headers: dict[str, str]) -> Record:
        given = headers.get("x-request-id", "")
        number = given if _ID.fullmatch(given) else uuid.uuid4().hex
        if path.startswith("/v1/models/"):
            path = "/v1/models"
        shown = path if path in PATHS else "other"
        return Record(number, path=shown, method=method, gap=self._metrics.gap)

    def _check(self, path: str, headers: dict[str, str]) -> None:
        """Raises Problem: no right to ask."""
        if not self._keys:
            self._check_local(headers)
        elif path not in OPEN and not self._knows(headers):
            raise Problem(
                401,
                "a valid key is needed (Authorization: Bearer KEY, or x-api-key)",
                "invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )

    def _knows(self, headers: dict[str, str]) -> bool:
        kind, _, key = headers.get("authorization", "").partition(" ")
        given = key.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).digest()
        # All of them, always: the time says nothing about any.
        return sum(hmac.compare_digest(digest, known) for known in self._keys) > 0

    def _check_local(self, headers: dict[str, str]) -> None:
        """A web page may send requests to this machine, also under a name that it points here."""
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if not is_loopback(host):
            raise Problem(403, "without a key this server answers to localhost only", "wrong_host")
        origin = headers.get("origin")
        if origin is not None and not is_loopback(urlsplit(origin).hostname or ""):
            raise Problem(403, "without a key this server answers no web pages", "wrong_origin")

    def _note(self, record: Record) -> None:
        seconds = time.monotonic() - record.began
        self._metrics.note(record, seconds)
        if record.path in _QUIET and record.status == 200:
            return
        usage = record.usage
        say(
            "request",
            level="error" if record.status == 500 or record.error in _OURS else "info",
            id=record.id,
            method=record.method,
            path=record.path,
            status=record.status,
            ms=round(1000 * seconds),
            first_token_ms=None if record.first is None else round(1000 * (record.first - record.began)),
            input_tokens=usage.input_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            finish=record.finish,
            aborted=record.aborted or None,
            error=record.error,
            cause=record.cause,
        )


def _cause(error: Exception) -> str:
    """The place of an internal failure, without any of its values."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}" if place else type(error).__name__
