"""What went wrong at an endpoint, from its status, headers and (often nested) error body."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, cast
from urllib.parse import urlsplit

from ...sandbox.base.errors import ModelError
from ...sandbox.base.tokens import mask

MAX_BODY = 64 << 10
"""Characters of an error body that are looked at."""


class Failure(Enum):
    """Classes of failure that are handled differently."""

    AUTH = "authentication"
    BAD_REQUEST = "bad request"
    UNSUPPORTED_PARAMETER = "unsupported parameter"
    CONTEXT_OVERFLOW = "context overflow"
    RATE_LIMIT = "rate limit"
    QUOTA = "quota exhausted"
    OVERLOADED = "overloaded"
    SERVER = "server error"
    STREAM_CUT = "stream cut"
    TIMEOUT = "timeout"
    CONNECTION = "no connection"
    ADDRESS = "no chat server"
    TOO_LARGE = "answer too large"
    REFUSAL = "refusal"

    @property
    def retryable(self) -> bool:
        return self in _RETRYABLE


_RETRYABLE = frozenset(
    {
        Failure.RATE_LIMIT,
        Failure.OVERLOADED,
        Failure.SERVER,
        Failure.STREAM_CUT,
        Failure.TIMEOUT,
        Failure.CONNECTION,
    }
)

_HINTS = {
    Failure.AUTH: "check WHIMBREL_API_KEY (or the provider's own key variable)",
    Failure.CONTEXT_OVERFLOW: "use a model with a larger context window or a smaller task",
    Failure.QUOTA: "the account's quota or credit is used up; waiting does not help",
    Failure.RATE_LIMIT: "try again later",
    Failure.OVERLOADED: "try again later",
    Failure.CONNECTION: "is the server running and the address right?",
    Failure.REFUSAL: "the provider's content rules refuse this request; try another model or provider",
    Failure.ADDRESS: "check the model's address; it usually ends in /v1",
}


class RemoteError(ModelError):
    """A classified failure of a remote model."""

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        retry_after_s: float | None = None,
        parameter: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(f"{failure.value}: {mask(message)}", hint=_HINTS.get(failure, ""))
        self.failure = failure
        self.detail = detail or message
        """The endpoint's own words at length; to learn from, not to show."""
        self.retry_after_s = retry_after_s
        self.parameter = parameter
        """The request field that the endpoint refuses (UNSUPPORTED_PARAMETER only)."""


_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|max_model_len|maximum model length"
    r"|too many (?:input )?tokens|(?:prompt|input) is too long|(?:prompt|input) too long"
    r"|exceeds? (?:the )?(?:available |model'?s? )?(?:maximum )?(?:context|input token)"
    r"|reduce the length of the (?:messages|prompt|input)|string too long.*tokens"
    r"|input tokens? (?:count .{0,40})?exceeds?|n_ctx|model token limit|request exceeds? .{0,20}token limit"
    r"|inputs?`? (?:tokens? \+|must have less than \d+ tokens)|longer than the model|too large for model with"
    r"|exceed(?:s|ed)? (?:the )?(?:maximum|max) (?:input|prompt) (?:length|tokens)"
    r"|(?:input|prompt|sequence|token|message)s? (?:length|count)\b.{0,60}"
    r"\b(?:exceeds?|greater than|larger than|over)\b"
    r"|上下文(?:长度|窗口)|超(?:过|出).{0,12}(?:长度|上下文|tokens?)|コンテキスト長"
    r"|longitud (?:máxima )?de contexto"
    r"|longueur (?:maximale )?du contexte|Kontext(?:länge|fenster)|длин[аыу] контекста",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[ _](?:quota|balance|credits?|funds)|exceeded your current quota|quota exceeded"
    r"|credit balance|billing|payment required|out of credits",
    re.IGNORECASE,
)
_MALFORMED = re.compile(
    r"validation errors?\b|literal_error|string_type|can only concatenate|has no attribute|jinja"
    r"|chat template|template error",
    re.IGNORECASE,
)
"""Servers that answer 500 to a request they cannot take: asking again would change nothing."""
_OVERLOADED = re.compile(r"overloaded|capacity|temporarily unavailable|server is busy", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"unsupported|does not support|not supported|unknown|unrecogni[sz]ed|not permitted|unexpected"
    r"|extra (?:inputs|fields)|invalid|not allowed|should be|must be|one of|literal_error",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content[ _]?(?:policy|filter(?:ed|ing)?\b)|responsible[ _]?ai|usage polic"
    r"|safety (?:system|polic|filter)|flagged (?:as|by|for)|moderation"
    r"|prohibited[ _]content|data_inspection_failed|invalid_prompt|high risk",
    re.IGNORECASE,
)


def classify(
    status: int | None, body: str, headers: Mapping[str, str] | None = None, *, optional: Iterable[str] = ()
) -> RemoteError:
    """Maps an error answer (or an error object inside a 200 stream, ``status`` None) to its class.

    Args:
        optional: request fields that could be left out; one of them named in a 400
            makes it UNSUPPORTED_PARAMETER.
    """
    body = body[:MAX_BODY]
    message, code, parameter = _unwrap(body)
    if status is None and code.isascii() and code.isdigit() and len(code) == 3:
        status = int(code)
    page = _web_page(body)
    if page and status in (None, 404, 405):
        where = "" if status is None else f"HTTP {status}: "
        return RemoteError(Failure.ADDRESS, f"{where}a web page came instead of an answer{page}")
    if status is not None and 300 <= status < 400:
        target = urlsplit(
            {name.lower(): value for name, value in (headers or {}).items()}.get("location", "")
        )
        to = f" to {target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}" if target.netloc else ""
        # Not followed: the key and the code must not go where nobody sent them.
        return RemoteError(Failure.ADDRESS, f"HTTP {status}: the server redirects{to}, which is not followed")
    message = f"a web page{page}" if page else message
    if status is None and message == body.strip():
        message = f"what came is no chat completion: {message[:160]}"
    shown = " ".join(message.split())[:500] or "no message"
    if status is not None:
        shown = f"HTTP {status}: {shown}"
    failure = _failure(status, f"{code} {message}")
    refused = ""
    if failure is Failure.BAD_REQUEST and _UNSUPPORTED.search(f"{code} {message}"):
        refused = next(
            (name for name in optional if name == parameter.partition(".")[0] or _names(message, name)), ""
        )
        failure = Failure.UNSUPPORTED_PARAMETER if refused else failure
    return RemoteError(
        failure, shown, retry_after_s=_retry_after(headers or {}), parameter=refused, detail=message[:8000]
    )


def _web_page(body: str) -> str:
    """The title of an HTML page as ": TITLE" (or "."), empty when the body is none."""
    if not re.match(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html|head|body)\b", body, re.IGNORECASE):
        return ""
    title = re.search(r"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
    return f": {' '.join(title[1].split())}" if title and title[1].strip() else "."


def _failure(status: int | None, text: str) -> Failure:
    if status in (None, 400, 413, 422, 500) and _OVERFLOW.search(text):
        return Failure.CONTEXT_OVERFLOW
    if status in (None, 400, 402, 403, 429) and (status == 402 or _QUOTA.search(text)):
        return Failure.QUOTA
    if status in (None, 400, 403, 422, 451) and _REFUSED.search(text):
        return Failure.REFUSAL
    if status in (401, 403):
        return Failure.AUTH
    if status == 413:
        return Failure.CONTEXT_OVERFLOW
    if status == 429:
        return Failure.RATE_LIMIT
    if status in (408, 504, 524):
        return Failure.TIMEOUT
    if status in (502, 503, 529) or (status in (None, 500) and _OVERLOADED.search(text)):
        return Failure.OVERLOADED
    if status is not None and (400 <= status < 500 or (status == 500 and _MALFORMED.search(text))):
        return Failure.BAD_REQUEST
    if status is None and re.search(r"invalid_request|rate.?limit", text, re.IGNORECASE):
        return Failure.RATE_LIMIT if "limit" in text else Failure.BAD_REQUEST
    return Failure.SERVER


def _names(message: str, field: str) -> bool:
    if field == "reasoning_effort" and re.search(r"support (?:thinking|reasoning)", message, re.IGNORECASE):
        return True
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(field)}(?![A-Za-z0-9_])", message) is not None


def _unwrap(body: str) -> tuple[str, str, str]:
    """``(message, code or type, parameter)`` of the innermost error in a body."""
    message, code, parameter = body.strip(), "", ""
    value: Any = body
    for _ in range(6):
        if isinstance(value, str):
            start = value.find("{")
            if start < 0:
                break
            try:
                value = json.JSONDecoder().raw_decode(value[start:])[0]
            except (ValueError, RecursionError):
                break
        if isinstance(value, list) and value:
            value = cast(Any, value[0])
        if not isinstance(value, dict):
            break
        error: dict[str, Any] = value
        code = str(error.get("code") or error.get("type") or code)
        parameter = str(error.get("param") or parameter)
        inner: Any = next(
            (error[key] for key in ("error", "message", "detail", "msg", "errors") if error.get(key)), None
        )
        if isinstance(error.get("loc"), list):
            # FastAPI's form: {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs ..."}]}
            places = [str(place) for place in error["loc"]]
            parameter = ".".join(places[1:] if len(places) > 1 and places[0] == "body" else places)
        if inner is None:
            break
        if isinstance(inner, str):
            message = inner
        value = inner
    return message, code, parameter


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds an endpoint asks to wait: ``retry-after-ms``, ``retry-after`` as seconds or date."""
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = lowered.get(name, "")
        try:
            return max(0.0, float(text) * scale)
        except ValueError:
            pass
    try:
        return max(0.0, parsedate_to_datetime(lowered["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, TypeError):
        return None
