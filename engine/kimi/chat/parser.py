"""What the model writes, token by token, as stream events.

Markers are told by token ids, never by text: a control token followed by its tag and the separator token.
Text is passed on as it comes, except the tag of a marker that is not complete and a character whose bytes are
not all there. Arguments are made into JSON while they come: a string is streamed, all else is checked first.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Literal

from ...chat import (
    FinishReason,
    ModelNotice,
    ReasoningDelta,
    StepDiscarded,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)
from ..tokenizer import Tokenizer
from .syntax import CLOSE, END, OPEN, SEP, unescaped

Channel = Literal["think", "response", "tools", "call", "argument", "json", "between", "ended"]

_ATTRIBUTE = re.compile(r'\s([^\s="]+)="([^"]*)"')
_MARKER_LIMIT = 4096
"""Tokens of a marker: a tag with its attributes has some ten."""


def new_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


class K3Parser:
    """Parses one answer. `feed` may be given any number of ids at a time, `finish` ends it.

    Args:
        thinking: whether the prompt ended with the thinking channel open (else the response).
        call_id: makes the ids of calls.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, thinking: bool = True, call_id: Callable[[], str] = new_call_id
    ) -> None:
        self._tokenizer = tokenizer
        self._open, self._close = tokenizer.special(OPEN), tokenizer.special(CLOSE)
        self._sep = tokenizer.special(SEP)
        self._ends = {tokenizer.special(END), tokenizer.special("[EOS]")}
        self._text = tokenizer.decoder()
        self._call_id = call_id
        self._marker: list[int] | None = None
        """Ids since a control token, itself first."""
        self._thought: list[str] = []
        self._call: _Call | None = None
        self._noticed = False
        self._events: list[StreamEvent] = []
        self.channel: Channel = "think" if thinking else "response"
        self.calls = 0
        """Calls that were begun."""

    @property
    def thinking(self) -> bool:
        """Whether the next token belongs to the thinking."""
        return self.channel == "think"

    @property
    def in_marker(self) -> bool:
        """Whether a marker has begun and is not complete."""
        return self._marker is not None

    @property
    def ended(self) -> bool:
        """Whether the model ended its message."""
        return self.channel == "ended"

    def finish_reason(self, *, truncated: bool) -> FinishReason:
        if truncated and not self.ended:
            return "length"
        return "tool_calls" if self.calls else "stop"

    def feed(self, ids: Iterable[int]) -> list[StreamEvent]:
        """Events of the next tokens; nothing after the end of the message."""
        for token in ids:
            if self.channel == "ended":
                break
            self._token(token)
        return self._taken()

    def finish(self) -> list[StreamEvent]:
        """Events of what was held back when the tokens end (limit, stop, cancel).

        A call that was cut off ends with the arguments as far as they came, which are no whole JSON then.
        """
        if self.channel != "ended":
            self._broken_marker()
            self._flush_text()
            if self._call is not None:
                self._events += self._call.cut_off()
                self._call = None
            self.channel = "ended"
        return self._taken()

    def _taken(self) -> list[StreamEvent]:
        """Events so far, neighbouring deltas of one kind put together."""
        events, self._events = self._events, []
        merged: list[StreamEvent] = []
        for event in events:
            last = merged[-1] if merged else None
            if isinstance(event, TextDelta) and isinstance(last, TextDelta):
                merged[-1] = TextDelta(text=last.text + event.text)
            elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
                merged[-1] = ReasoningDelta(text=last.text + event.text)
            elif (
                isinstance(event, ToolCallArguments)
                and isinstance(last, ToolCallArguments)
                and event.id == last.id
            ):
                merged[-1] = ToolCallArguments(id=last.id, delta=last.delta + event.delta)
            else:
                merged.append(event)
        return merged

    # ------------------------------------------------------------ tokens

    def _token(self, token: int) -> None:
        if token in self._ends:
            self._end_message()
        elif token in (self._open, self._close):
            self._broken_marker()
            self._flush_text()
            self._marker = [token]
        elif token == self._sep:
            if self._marker is None:
                self._odd()
                return
            marker, self._marker = self._marker, None
            self._complete(marker[0] == self._open, self._tokenizer.decode(marker[1:]))
        elif self._tokenizer.is_special(token):
            # Nothing that a person should read: media places and reserved slots mean nothing in an answer.
            self._odd()
        elif self._marker is not None:
            self._marker.append(token)
            if len(self._marker) > _MARKER_LIMIT:
                self._broken_marker()
        else:
            self._say(self._text.feed((token,)))

    def _broken_marker(self) -> None:
        """A marker that never became whole: its words are text of the channel, the control token is not."""
        if self._marker is None:
            return
        marker, self._marker = self._marker, None
        self._odd()
        self._say(self._tokenizer.decode(marker[1:]))

    def _flush_text(self) -> None:
        self._say(self._text.finish())

    def _odd(self) -> None:
        if not self._noticed:
            self._noticed = True
            self._events.append(
                ModelNotice(text="the model wrote control tokens where none belong; they are left out")
            )

    def _say(self, text: str) -> None:
        if not text:
            return
        if self.channel == "think":
            self._thought.append(text)
            self._events.append(ReasoningDelta(text=text))
        elif self._call is not None and self.channel in ("argument", "json"):
            self._events += self._call.text(text)
        elif self.channel == "response" or text.strip():
            # Words between the channels belong to nobody else: the channel was left out.
            if self.channel == "between":
                self.channel = "response"
            self._events.append(TextDelta(text=text))

    # ------------------------------------------------------------ markers

    def _complete(self, opens: bool, marker: str) -> None:
        tag, _, rest = marker.partition(" ")
        attributes = {key: unescaped(value) for key, value in _ATTRIBUTE.findall(f" {rest}")}
        if opens:
            self._opened(tag.strip(), attributes)
        else:
            self._closed(tag.strip())

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("argument", "json") and self._call is not None:
            self._events += self._call.end_value()
            kind = "json" if tag == "json" else attributes.get("type", "")
            self._events += self._call.begin_value(attributes.get("key", ""), kind)
            self.channel = "argument" if tag == "argument" else "json"
            return
        if tag == "call":
            self._end_call()
            self._call = _Call(self._call_id(), attributes.get("tool", ""))
            self.calls += 1
            self._events.append(ToolCallStart(id=self._call.id, name=self._call.name))
            self.channel = "call"
        elif tag == "think":
            # Only where the thinking may still come; a second opening changes nothing.
            if self.channel == "between" and not self.calls:
                self.channel = "think"
        elif tag in ("response", "tools"):
            self._end_call()
            self.channel = "response" if tag == "response" else "tools"
        elif tag == "message":
            if attributes.get("role", "assistant") != "assistant":
                self._end_message()  # the model goes on in another's name
        else:
            self._odd()

    def _closed(self, tag: str) -> None:
        if tag in ("argument", "json"):
            if self._call is not None:
                self._events += self._call.end_value()
                self.channel = "call"
        elif tag == "call":
            self._end_call()
            self.channel = "tools"
        elif tag == "think":
            if self.channel == "think":
                self.channel = "between"
        elif tag == "response":
            if self.channel == "think":
                self._was_the_answer()
            self.channel = "between"
        elif tag in ("tools", "message"):
            self._end_call()
            self.channel = "between"
        else:
            self._odd()

    def _was_the_answer(self) -> None:
        """The thinking was skipped and the response closed directly: what came is the response."""
        text = "".join(self._thought)
        self._thought = []
        if text:
            self._events.append(StepDiscarded(reason="the answer came in the place of the thinking"))
            self._events.append(TextDelta(text=text))

    def _end_call(self) -> None:
        if self._call is not None:
            self._events += self._call.end()
            self._call = None

    def _end_message(self) -> None:
        self._broken_marker()
        self._flush_text()
        self._end_call()
        self.channel = "ended"


class _Call:
    """One call while it comes: its arguments as the text of a JSON object."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self._written: list[str] = []
        self._kind = ""
        self._value: list[str] | None = None
        """Text of a value that is not passed on before it is whole; None outside a value."""
        self._streams = False
        self._raw = False

    def begin_value(self, key: str, kind: str) -> list[StreamEvent]:
        self._kind, self._value, self._streams = kind, [], kind == "string"
        if kind == "json":
            self._raw = True
            return []
        opening = ("{" if not self._written else ", ") + json.dumps(key, ensure_ascii=False) + ": "
        return self._write(opening + ('"' if self._streams else ""))

    def text(self, text: str) -> list[StreamEvent]:
        if self._value is None:
            return []
        if self._streams:
            return self._write(_inside_string(text))
        self._value.append(text)
        return []

    def end_value(self) -> list[StreamEvent]:
        if self._value is None:
            return []
        value, self._value = "".join(self._value), None
        if self._streams:
            return self._write('"')
        if self._kind == "json":
            return self._write(value)
        return self._write(_as_json(value))

    def end(self) -> list[StreamEvent]:
        events = self.end_value()
        if not self._raw:
            events += self._write("}" if self._written else "{}")
        return [*events, self._ending()]

    def cut_off(self) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if self._value:
            events += self._write("".join(self._value))
        elif not self._written and not self._raw:
            events += self._write("{")
        return [*events, self._ending()]

    def _ending(self) -> StreamEvent:
        return ToolCallEnd(id=self.id, name=self.name, arguments="".join(self._written))

    def _write(self, text: str) -> list[StreamEvent]:
        if not text:
            return []
        self._written.append(text)
        return [ToolCallArguments(id=self.id, delta=text)]


def _inside_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _as_json(text: str) -> str:
    """A value as JSON; text that is none becomes a string."""
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text.strip()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
