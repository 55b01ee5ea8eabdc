"""A server with a real window: it counts what it gets, refuses what does not fit, and reports truthfully."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from whimbrel.app.context.summary import INSTRUCTIONS

from ..mock_server import Reply, Request, completion, error_reply

PER_TOKEN = 3.5


def tokens_of(request: Request) -> int:
    body = {key: request.body[key] for key in ("messages", "tools") if key in request.body}
    return int(len(json.dumps(body, ensure_ascii=False).encode()) / PER_TOKEN)


def asks_for_summary(request: Request) -> bool:
    return request.messages[0]["content"] == INSTRUCTIONS


class Windowed:
    """Plays ``work`` (the number of the work request, from 0, to a reply) and ``summary`` within a window.

    Every reply is made by ``completion`` keywords; usage is added truthfully.
    """

    def __init__(
        self,
        window: int,
        work: Callable[[int, Request], dict[str, Any]],
        summary: Callable[[int, Request], dict[str, Any]] = lambda number, request: {
            "text": f"NOTES {number}."
        },
    ) -> None:
        self.window = window
        self.refused: list[Request] = []
        self.work_requests: list[Request] = []
        self.summary_requests: list[Request] = []
        self._work, self._summary = work, summary

    def __call__(self, request: Request) -> Reply:
        used, asked = tokens_of(request), request.body.get("max_tokens") or 0
        if used + asked > self.window:
            self.refused.append(request)
            return error_reply(
                f"This model's maximum context length is {self.window} tokens. However, you requested"
                f" {used + asked} tokens ({used} in the messages, {asked} in the completion)."
            )
        if asks_for_summary(request):
            self.summary_requests.append(request)
            values = self._summary(len(self.summary_requests) - 1, request)
        else:
            self.work_requests.append(request)
            values = self._work(len(self.work_requests) - 1, request)
        if isinstance(values, Reply):
            return values
        text = values.get("text", "")
        if asked and len(text) / PER_TOKEN > asked:
            values = {**values, "text": text[: int(asked * PER_TOKEN)], "finish": "length"}
        spoken = len(json.dumps(values, default=str)) / PER_TOKEN
        return completion(**{"usage": (used, int(spoken)), **values})
