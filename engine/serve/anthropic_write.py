"""Events of an answer as the Messages stream, or as one message."""

from __future__ import annotations

import json
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
from .backend import GenerationEvent, StoppedBy
from .openai_read import Asked

_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    # There is nothing to sign: thinking comes back as it is, or stays away.
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


def event_line(kind: str, value: dict[str, Any]) -> bytes:
    data = json.dumps({"type": kind, **value}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


class MessageWriter:
    """One answer; see ``ChatWriter``."""

    content_type = "text/event-stream; charset=utf-8"
    waiting = event_line("ping", {})

    def __init__(self, asked: Asked) -> None:
        self._id = f"msg_{asked.request.id}"
        self._model = asked.model
        self._started = False
        self._blocks: list[dict[str, Any]] = []
        self._open: str | None = None
        self._written = ""
        """JSON of the call that is open."""
        self._usage: Usage | None = None
        self._reason = "end_turn"
        self._stopped_by: str | None = None

    def feed(self, event: GenerationEvent) -> Iterator[bytes]:
        if isinstance(event, Usage):
            self._usage = event
        if not self._started:
            self._started = True
            message = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None}
            # Clients add these counts to later ones: none is said before it is known how it divides.
            known = self._usage is not None and self._usage.cached_tokens is not None
            usage = self.usage() if known else {"input_tokens": 0, "output_tokens": 0}
            yield event_line("message_start", {"message": {**message, "usage": usage}})
        yield from self._said(event)

    def end(self) -> Iterator[bytes]:
        yield from self._close()
        delta = {"stop_reason": self._reason, "stop_sequence": self._stopped_by}
        yield event_line("message_delta", {"delta": delta, "usage": self.usage()})
        yield event_line("message_stop", {})

    def error(self, body: dict[str, Any]) -> bytes:
        return event_line("error", {key: value for key, value in body.items() if key != "type"})

    def gather(self, event: GenerationEvent) -> None:
        for _ in self._said(event):
            pass

    def whole(self) -> dict[str, Any]:
        for _ in self._close():
            pass
        return {
            **self._head(),
            "content": self._blocks,
            "stop_reason": self._reason,
            "stop_sequence": self._stopped_by,
            "usage": self.usage(),
        }

    def usage(self) -> dict[str, Any]:
        """``input_tokens`` are those that were not in the cache; 0 while nothing is counted."""
        usage = self._usage or Usage()
        cached = usage.cached_tokens
        counts: dict[str, Any] = {
            "input_tokens": max(0, (usage.input_tokens or 0) - (cached or 0)),
            "output_tokens": usage.output_tokens or 0,
        }
        if cached is not None:
            counts |= {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
        return counts

    # ------------------------------------------------------------ inner

    def _head(self) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self._model}

    def _said(self, event: GenerationEvent) -> Iterator[bytes]:
        if isinstance(event, TextDelta):
            yield from self._piece("text", "text_delta", event.text)
        elif isinstance(event, ReasoningDelta):
            yield from self._piece("thinking", "thinking_delta", event.text)
        elif isinstance(event, ToolCallStart):
            yield from self._close()
            yield self._begin({"type": "tool_use", "id": event.id, "name": event.name, "input": {}}, event.id)
        elif isinstance(event, ToolCallArguments):
            yield from self._json(event.delta)
        elif isinstance(event, ToolCallEnd):
            if not self._written.strip():
                yield from self._json(event.arguments)
            self._blocks[-1]["input"] = _value(event.arguments)
            yield from self._close()
        elif isinstance(event, Usage):
            self._usage = event
        elif isinstance(event, StoppedBy):
            self._stopped_by = event.text
        elif isinstance(event, Finished):
            by_text = self._stopped_by is not None and event.reason == "stop"
            self._reason = "stop_sequence" if by_text else _REASONS.get(event.reason, "end_turn")

    def _piece(self, kind: str, delta: str, text: str) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._close()
            yield self._begin(dict(_EMPTY[kind]), kind)
        if text:
            self._blocks[-1][kind] += text
            yield self._delta({"type": delta, kind: text})

    def _json(self, piece: str) -> Iterator[bytes]:
        if piece:
            self._written += piece
            yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def _begin(self, block: dict[str, Any], name: str) -> bytes:
        self._blocks.append(block)
        self._open, self._written = name, ""
        return event_line(
            "content_block_start", {"index": len(self._blocks) - 1, "content_block": dict(block)}
        )

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return event_line("content_block_delta", {"index": len(self._blocks) - 1, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            self._open = None
            yield event_line("content_block_stop", {"index": len(self._blocks) - 1})


def _value(arguments: str) -> dict[str, Any]:
    """This form has no place for arguments that are no JSON object: what there is goes under one name."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}
