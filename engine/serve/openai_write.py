"""Events of an answer as chat-completion chunks, or as one chat completion."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from ..chat import (
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from .backend import GenerationEvent, TokenChance, TokenLogprobs
from .openai_read import Asked

_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}
FIELD = "reasoning_content"
"""Name of thinking in answers; requests may use it or ``reasoning``."""


def line(value: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class ChatWriter:
    """One answer. ``feed`` gives what a stream says, ``whole`` the same in one piece."""

    content_type = "text/event-stream; charset=utf-8"
    waiting = b": waiting\n\n"

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._head = {
            "id": f"chatcmpl-{asked.request.id}",
            "created": int(time.time()),
            "model": asked.model,
        }
        self._started = False
        self._calls: dict[str, dict[str, Any]] = {}
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thought = False
        self._chances: list[dict[str, Any]] = []
        self._unsent: list[dict[str, Any]] = []
        self._usage: Usage | None = None
        self._reason = "stop"

    # ------------------------------------------------------------ streamed

    def feed(self, event: GenerationEvent) -> Iterator[bytes]:
        if not self._started:
            self._started = True
            yield self._chunk({"role": "assistant", "content": ""})
        if (delta := self._take(event)) is not None:
            yield self._chunk(delta)

    def end(self) -> Iterator[bytes]:
        """After the last event."""
        yield self._chunk({}, reason=self._reason)
        if self._asked.include_usage:
            yield line({**self._chunk_head(), "choices": [], "usage": self.usage()})
        yield b"data: [DONE]\n\n"

    def error(self, body: dict[str, Any]) -> bytes:
        """Says inside of a stream that it ends here, and why."""
        return line(body)

    # ------------------------------------------------------------ in one piece

    def gather(self, event: GenerationEvent) -> None:
        self._take(event)

    def whole(self) -> dict[str, Any]:
        text = "".join(self._text)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text if text or not self._calls else None,
            "refusal": None,
        }
        if self._thought:
            message[FIELD] = "".join(self._thinking)
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for call_id, call in self._calls.items()
            ]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": self._logprobs(self._chances),
            "finish_reason": self._reason,
        }
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self.usage()}

    def usage(self) -> dict[str, Any] | None:
        """None where the backend has not counted."""
        usage = self._usage
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        counts: dict[str, Any] = {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        if usage.cached_tokens is not None:
            counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
        if usage.reasoning_tokens is not None:
            counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
        return counts

    # ------------------------------------------------------------ inner

    def _take(self, event: GenerationEvent) -> dict[str, Any] | None:
        """Keeps an event; the delta that says it, if it says something."""
        if isinstance(event, TextDelta):
            self._text.append(event.text)
            return {"content": event.text}
        if isinstance(event, ReasoningDelta):
            self._thought = True
            self._thinking.append(event.text)
            return {FIELD: event.text}
        if isinstance(event, ToolCallStart):
            call = self._calls[event.id] = {"index": len(self._calls), "name": event.name, "arguments": ""}
            function = {"name": event.name, "arguments": ""}
            entry = {"index": call["index"], "id": event.id, "type": "function", "function": function}
            return {"tool_calls": [entry]}
        if isinstance(event, ToolCallArguments):
            return self._arguments(event.id, event.delta)
        if isinstance(event, ToolCallEnd):
            # "{}" where the model has written nothing.
            missing = "" if self._calls[event.id]["arguments"].strip() else event.arguments
            return self._arguments(event.id, missing) if missing else None
        if isinstance(event, TokenLogprobs):
            said = {**_chance(event.chosen), "top_logprobs": [_chance(each) for each in event.top]}
            self._chances.append(said)
            self._unsent.append(said)
        elif isinstance(event, Usage):
            self._usage = event
        elif isinstance(event, Finished):
            self._reason = event.reason if event.reason in _REASONS else "stop"
        return None

    def _arguments(self, call_id: str, delta: str) -> dict[str, Any]:
        call = self._calls[call_id]
        call["arguments"] += delta
        return {"tool_calls": [{"index": call["index"], "function": {"arguments": delta}}]}

    def _chunk_head(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk"}

    def _chunk(self, delta: dict[str, Any], *, reason: str | None = None) -> bytes:
        unsent: list[dict[str, Any]] = []
        if delta.get("content") or reason:
            unsent, self._unsent = self._unsent, []
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
        if self._asked.request.top_logprobs is not None:
            choice["logprobs"] = self._logprobs(unsent) if unsent else None
        chunk = {**self._chunk_head(), "choices": [choice]}
        if self._asked.include_usage:
            chunk["usage"] = None
        return line(chunk)

    def _logprobs(self, chances: list[dict[str, Any]]) -> dict[str, Any] | None:
        if self._asked.request.top_logprobs is None:
            return None
        return {"content": chances, "refusal": None}


def _chance(chance: TokenChance) -> dict[str, Any]:
    # JSON has no infinity; the API's own stand-in for a token that cannot come.
    return {
        "token": chance.text,
        "logprob": max(chance.logprob, -9999.0),
        "bytes": list(chance.data),
    }
