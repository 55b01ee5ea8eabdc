"""Chat-completion chunks of one step to stream events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..chat import (
    Finished,
    FinishReason,
    OpaqueReceived,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    Usage,
)
from . import tags
from .calls import ToolCallAccumulator

REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Newer name first: where a server sends both, both hold the same text."""

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class StepDecoder:
    """Keeps what must be known between chunks of one step."""

    def __init__(self, provider: str) -> None:
        self.finish_reason: str | None = None
        self._provider = provider
        self._calls = ToolCallAccumulator()
        self._usage: Usage | None = None
        self._reasoning_field: str | None = None
        self._details: list[Any] = []
        self._halves = {"text": "", "reasoning": ""}
        self._tags = tags.TagSplitter()
        self._content = False
        self._refused = False
        self._modern = False
        """Whether calls come as ``tool_calls``."""

    @property
    def has_content(self) -> bool:
        """Whether anything but usage has arrived."""
        return self._content or len(self._calls) > 0

    def feed(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        """Events of one chunk (or of one whole completion, where a server does not stream)."""
        self._note_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if not isinstance(choice, dict) or choice.get("index") not in (None, 0):
                continue
            self._note_usage(choice.get("usage"))
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                yield from self._delta(delta)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self.finish_reason = reason

    def finish(self) -> Iterator[StreamEvent]:
        """The closing events: complete calls, provider details, usage, ``Finished``."""
        for channel, rest in self._tags.end():
            yield from self._text(channel, rest)
        for channel, half in self._halves.items():
            if half:
                yield self._piece(channel, "�")
        yield from self._calls.finish()
        if self._details:
            yield OpaqueReceived(provider=self._provider, payload={"reasoning_details": self._details})
        if self._usage is not None:
            yield self._usage
        yield Finished(reason=self._reason())

    def _reason(self) -> FinishReason:
        reason = _REASONS.get(self.finish_reason or "", "unknown")
        if self._refused and not len(self._calls):
            return "content_filter"
        # Some servers say "stop" although they sent calls, or forget the reason.
        if len(self._calls) and reason in ("stop", "unknown"):
            return "tool_calls"
        return reason

    def _delta(self, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from self._reasoning(delta)
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            self._detail(details)
        yield from self._spoken(delta.get("content"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._content = self._refused = True
            yield from self._text("text", refusal)
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else []:
            if isinstance(fragment, dict):
                yield from self._calls.feed(fragment)
        self._modern = self._modern or bool(fragments)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and not self._modern:
            # The form before tool calls. Some servers send every call in both forms.
            yield from self._calls.feed({"function": legacy})

    def _detail(self, pieces: list[Any]) -> None:
        """Keeps provider details as they come; only an entry that is streamed in pieces is put together."""
        last: Any = self._details[-1] if self._details else None
        first: Any = pieces[0] if pieces else None
        if _continues(last, first):
            joined = {key: value for key, value in first.items() if value is not None}
            for key in ("text", "summary"):
                if isinstance(last.get(key), str) and isinstance(first.get(key), str):
                    joined[key] = last[key] + first[key]
            self._details[-1] = {**last, **joined}
            pieces = pieces[1:]
        self._details.extend(pieces)

    def _spoken(self, content: Any) -> Iterator[StreamEvent]:
        """Text, which may hold thinking in tags, or a list of parts, as a few servers send."""
        if isinstance(content, list):
            for part in content:
                kind = part.get("type") if isinstance(part, dict) else None
                if kind == "thinking":
                    inner = part.get("thinking")
                    pieces = inner if isinstance(inner, list) else [{"text": inner}]
                    text = "".join(
                        str(piece.get("text") or "") for piece in pieces if isinstance(piece, dict)
                    )
                    yield from self._reasoning({self._reasoning_field or REASONING_FIELDS[1]: text})
                elif kind == "text":
                    yield from self._spoken(part.get("text"))
            return
        if not isinstance(content, str) or not content:
            return
        self._content = True
        if self._reasoning_field in (None, tags.FIELD):
            for channel, text in self._tags.feed(content):
                if self._tags.found:
                    self._reasoning_field = tags.FIELD
                yield from self._text(channel, text)
        else:
            yield from self._text("text", content)

    def _reasoning(self, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        for field in REASONING_FIELDS:
            text = delta.get(field)
            if not isinstance(text, str) or self._reasoning_field not in (None, field):
                continue
            # One empty event marks that the field was there at all; some endpoints want it back.
            if text or self._reasoning_field is None:
                self._reasoning_field = field
                self._content = self._content or bool(text)
                yield from (
                    self._text("reasoning", text)
                    if text
                    else [ReasoningDelta(text="", field=field, source=self._provider)]
                )
            return

    def _text(self, channel: str, text: str) -> Iterator[StreamEvent]:
        """Joins surrogate pairs that a server has cut in two; a lone half becomes U+FFFD."""
        text = self._halves[channel] + text
        self._halves[channel] = ""
        if "\ud800" <= text[-1] <= "\udbff":
            self._halves[channel] = text[-1]
            text = text[:-1]
        if text:
            yield self._piece(
                channel, text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            )

    def _piece(self, channel: str, text: str) -> StreamEvent:
        if channel == "text":
            return TextDelta(text=text)
        field = self._reasoning_field or REASONING_FIELDS[1]
        return ReasoningDelta(text=text, field=field, source=self._provider)

    def _note_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        prompt: Any = usage.get("prompt_tokens_details")
        completion: Any = usage.get("completion_tokens_details")
        cost = usage.get("cost")
        self._usage = Usage(
            input_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
            cached_tokens=_first(
                _count(prompt, "cached_tokens"),
                _count(usage, "cached_tokens"),  # Kimi
                _count(usage, "prompt_cache_hit_tokens"),  # DeepSeek
            ),
            reasoning_tokens=_count(completion, "reasoning_tokens"),
            cost_usd=_amount(cost),
        )


def _continues(last: Any, piece: Any) -> bool:
    """Whether a piece belongs to the entry before it: same index, same type, and text that goes on."""
    if not isinstance(last, dict) or not isinstance(piece, dict) or not isinstance(piece.get("index"), int):
        return False
    if any(last.get(key) != piece.get(key) for key in ("index", "type")):
        return False
    return "data" not in piece and any(key in last for key in ("text", "summary"))


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None  # neither NaN nor infinity passes


def _count(values: Any, key: str) -> int | None:
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
