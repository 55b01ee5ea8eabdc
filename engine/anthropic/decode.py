"""Events of the Messages stream, of one step, to stream events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ..chat import (
    Finished,
    FinishReason,
    OpaqueReceived,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from .encode import THINKING_FIELD, Block

PAUSED = "pause_turn"
"""The server wants its own unfinished answer back to go on with it."""

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


@dataclass
class _Open:
    """A content block while it arrives."""

    raw: Block
    pieces: list[str] = field(default_factory=list[str])
    """Of text, of thinking, or of a call's JSON."""
    signature: list[str] = field(default_factory=list[str])
    call_id: str = ""


class StepDecoder:
    """Keeps what must be known between the events of one answer."""

    def __init__(self, provider: str) -> None:
        self.stop_reason = ""
        self.done = False
        """Whether the answer has come to its end."""
        self.blocks: list[Block] = []
        """Finished blocks as they go back to the server."""
        self._provider = provider
        self._open: dict[int, _Open] = {}
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}

    @property
    def has_content(self) -> bool:
        return bool(self._open or self.blocks)

    def feed(self, event: dict[str, Any]) -> Iterator[StreamEvent]:
        """Stream events of one event of the server; unknown ones mean nothing to us."""
        kind = event.get("type")
        if kind == "message_start":
            self._count(_dict(event, "message").get("usage"))
        elif kind == "content_block_start":
            yield from self._begin(_index(event), _dict(event, "content_block"))
        elif kind == "content_block_delta":
            yield from self._delta(_index(event), _dict(event, "delta"))
        elif kind == "content_block_stop":
            yield from self._end(_index(event))
        elif kind == "message_delta":
            self.stop_reason = str(_dict(event, "delta").get("stop_reason") or self.stop_reason)
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "message":
            yield from self._whole(event)

    def rest(self) -> Iterator[StreamEvent]:
        """Ends blocks that the server left open."""
        for index in list(self._open):
            yield from self._end(index)

    def usage(self) -> Usage | None:
        """What was reported; ``input_tokens`` counts the cached ones too, as other servers do."""
        if not self._counts:
            return None
        get = self._counts.get
        read, written, fresh = (
            get("cache_read_input_tokens"),
            get("cache_creation_input_tokens"),
            get("input_tokens"),
        )
        whole = None if fresh is None else fresh + (read or 0) + (written or 0)
        return Usage(
            input_tokens=whole,
            output_tokens=get("output_tokens"),
            cached_tokens=read,
            cache_write_tokens=written,
        )

    def finished(self) -> Finished:
        reason = _REASONS.get(self.stop_reason, "unknown")
        if reason in ("stop", "unknown") and any(block["type"] == "tool_use" for block in self.blocks):
            reason = "tool_calls"
        return Finished(reason=reason)

    def _whole(self, message: dict[str, Any]) -> Iterator[StreamEvent]:
        """An answer in one piece, where a server does not stream."""
        self._count(message.get("usage"))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            if isinstance(block, dict):
                yield from self._begin(index, cast(Block, block))
                yield from self._end(index)
        self.stop_reason = str(message.get("stop_reason") or "")
        self.done = True

    def _begin(self, index: int, block: Block) -> Iterator[StreamEvent]:
        if index in self._open:
            yield from self._end(index)
        opened = self._open[index] = _Open(dict(block))
        kind = block.get("type")
        if kind == "text":
            yield from self._text(opened, block.get("text"))
        elif kind == "thinking":
            # Also when it is empty: the block goes back with its signature.
            yield ReasoningDelta(text="", field=THINKING_FIELD, source=self._provider)
            yield from self._thinking(opened, block.get("thinking"))
            if isinstance(block.get("signature"), str):
                opened.signature.append(block["signature"])
        elif kind == "tool_use":
            given = str(block.get("id") or "")
            opened.call_id = given if given and given not in self._ids else f"call_{uuid.uuid4().hex[:16]}"
            self._ids.add(opened.call_id)
            yield ToolCallStart(id=opened.call_id, name=str(block.get("name") or ""))

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        kind = delta.get("type")
        opened = self._open.get(index)
        if opened is None:
            # Some servers forget to open a block: what comes says which kind it is.
            if kind not in ("text_delta", "thinking_delta"):
                return
            yield from self._begin(index, {"type": str(kind).removesuffix("_delta")})
            opened = self._open[index]
        if kind == "text_delta":
            yield from self._text(opened, delta.get("text"))
        elif kind == "thinking_delta":
            yield from self._thinking(opened, delta.get("thinking"))
        elif kind == "signature_delta" and isinstance(delta.get("signature"), str):
            opened.signature.append(delta["signature"])
        elif kind == "input_json_delta" and isinstance(delta.get("partial_json"), str):
            piece = delta["partial_json"]
            if piece:
                opened.pieces.append(piece)
                if opened.call_id:
                    yield ToolCallArguments(id=opened.call_id, delta=_clean(piece))

    def _end(self, index: int) -> Iterator[StreamEvent]:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        raw, whole = opened.raw, "".join(opened.pieces)
        kind = raw.get("type")
        if kind == "text":
            self.blocks.append({"type": "text", "text": whole})
            return
        if kind == "thinking":
            signature = "".join(opened.signature)
            self.blocks.append({"type": "thinking", "thinking": whole, "signature": signature})
            payload = {"type": "thinking", "signature": signature}
            yield OpaqueReceived(provider=self._provider, payload=payload)
            return
        if whole.strip() or kind == "tool_use":
            raw["input"] = _value(whole) if whole.strip() else raw.get("input") or {}
        self.blocks.append(raw)
        if kind == "tool_use":
            raw["id"] = opened.call_id
            arguments = whole if whole.strip() else json.dumps(raw["input"], ensure_ascii=False)
            yield ToolCallEnd(id=opened.call_id, name=str(raw.get("name") or ""), arguments=_clean(arguments))
        else:
            # Hidden thinking, and what a server's own tools did.
            yield OpaqueReceived(provider=self._provider, payload=raw)

    def _text(self, opened: _Open, text: Any) -> Iterator[StreamEvent]:
        if isinstance(text, str) and text:
            opened.pieces.append(text)
            yield TextDelta(text=_clean(text))

    def _thinking(self, opened: _Open, text: Any) -> Iterator[StreamEvent]:
        if isinstance(text, str) and text:
            opened.pieces.append(text)
            yield ReasoningDelta(text=_clean(text), field=THINKING_FIELD, source=self._provider)

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        for key, value in cast(dict[str, Any], usage).items():
            # Later events repeat the counts, sometimes with zeros where the first one was right.
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                self._counts[key] = max(value, self._counts.get(key, 0))


def plus(first: Usage | None, second: Usage | None) -> Usage | None:
    """Both together; what either does not know stays unknown only if both do not."""
    if first is None or second is None:
        return second if first is None else first

    def both(a: int | None, b: int | None) -> int | None:
        return None if a is None and b is None else (a or 0) + (b or 0)

    return Usage(
        input_tokens=both(first.input_tokens, second.input_tokens),
        output_tokens=both(first.output_tokens, second.output_tokens),
        cached_tokens=both(first.cached_tokens, second.cached_tokens),
        cache_write_tokens=both(first.cache_write_tokens, second.cache_write_tokens),
    )


def _clean(text: str) -> str:
    """Joins surrogate pairs; a lone half becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _dict(values: dict[str, Any], key: str) -> dict[str, Any]:
    value = values.get(key)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _value(text: str) -> Any:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
