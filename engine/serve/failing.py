"""Every failure as a status and a body, in the form that the client of each API expects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .admission import Draining
from .backend import Busy, OutOfOrder, Refused
from .job import ClientTooSlow, Stopping

Form = Literal["openai", "anthropic"]

_OPENAI_TYPES = {429: "rate_limit_error", 500: "server_error", 503: "service_unavailable"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}


@dataclass(eq=False)
class Problem(Exception):
    """A refusal with its status; ``message`` is one line for the client."""

    status: int
    message: str
    code: str
    parameter: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def body(self, form: Form, request_id: str) -> dict[str, Any]:
        if form == "anthropic":
            kind = _ANTHROPIC_TYPES.get(self.status, "invalid_request_error")
            error = {"type": kind, "message": self.message}
            return {"type": "error", "error": error, "request_id": request_id}
        kind = _OPENAI_TYPES.get(self.status, "invalid_request_error")
        error = {
            "message": self.message,
            "type": kind,
            "param": self.parameter or None,
            "code": self.code,
        }
        return {"error": error}


def problem_of(error: Exception) -> Problem:
    """What a client is told; of an internal failure nothing but that there was one."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Refused):
        return Problem(400, " ".join(error.message.split()), error.code, error.parameter)
    if isinstance(error, Busy):
        wait = {"retry-after": str(max(1, round(error.retry_after_s)))}
        return Problem(429, error.message, "queue_full", headers=wait)
    if isinstance(error, Draining | Stopping):
        return Problem(503, "the server is shutting down", "shutting_down", headers={"retry-after": "5"})
    if isinstance(error, OutOfOrder):
        return Problem(503, "the model has failed and must be loaded again; /health says why", "model_failed")
    if isinstance(error, ClientTooSlow):
        return Problem(408, "the answer was not read", "client_too_slow")
    return Problem(500, "the model failed on this request; others are not affected", "internal_error")
