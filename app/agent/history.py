"""The history of a run: append-only, verbatim, and always in a form every endpoint accepts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from ...engine.chat import (
    Finished,
    FinishReason,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueReceived,
    Part,
    ReasoningDelta,
    ReasoningPart,
    StepDiscarded,
    StreamEvent,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from ...sandbox.base.secrets import redact, redact_json
from ..context.log import MessageLog
from ..context.view import ViewPlan, render
from .near_json import read_near_json

UNNAMED = "unnamed_tool"
"""Stands in the history for a call without a name: endpoints refuse an empty one."""


class EventLog(Protocol):
    """Where a run is recorded: a session, or a sub-agent's part of one."""

    def append(self, kind: str, payload: Any) -> int:
        """Stores an event and returns its number."""
        ...

    def payload(self, seq: int) -> Any:
        """What was stored under a number; raises KeyError."""
        ...

    def keep(self, data: bytes, media: str) -> str:
        """Stores a complete output and returns its handle."""
        ...

    @property
    def dropped(self) -> int:
        """Events that could not be stored."""
        ...


@dataclass(frozen=True)
class Call:
    """One tool call as the loop handles it."""

    part: ToolCallPart
    """What the history holds: a name, and arguments that are a JSON object."""
    arguments: dict[str, Any] | None
    """None when the model's text was no JSON object."""
    problem: str = ""
    """For the model: why the call cannot be run as written."""
    remark: str = ""
    """For the model, with the result: how a call that was nearly right was read."""


class StepBuilder:
    """Collects the stream of one step into the assistant message, parts in order of arrival."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._parts: list[Part] = []
        self._pieces: list[str] = []
        """Of the last part, while it grows."""
        self.calls: list[Call] = []
        self.usage: Usage | None = None
        self.reason: FinishReason = "unknown"
        self.finished = False

    def feed(self, event: StreamEvent) -> None:
        if isinstance(event, TextDelta):
            self._extend(TextPart(text=event.text))
        elif isinstance(event, ReasoningDelta):
            self._extend(ReasoningPart(text=event.text, field=event.field, source=event.source))
        elif isinstance(event, ToolCallEnd):
            # The finish reason, which tells truncated from malformed, comes later: see `message`.
            self._join()
            self._parts.append(ToolCallPart(id=event.id, name=event.name, arguments=event.arguments))
        elif isinstance(event, OpaqueReceived):
            self._join()
            self._parts.append(OpaquePart(provider=event.provider, payload=event.payload))
        elif isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, Finished):
            self.reason, self.finished = event.reason, True
        elif isinstance(event, StepDiscarded):
            self._reset()

    @property
    def empty(self) -> bool:
        """Neither text nor calls: thinking alone answers nothing."""
        self._join()
        return not any(
            isinstance(part, ToolCallPart) or (isinstance(part, TextPart) and part.text.strip())
            for part in self._parts
        )

    def partial(self) -> Message:
        """What has arrived so far, exactly as it came."""
        self._join()
        return Message(role="assistant", parts=tuple(self._parts))

    def message(self) -> Message:
        """The finished message; fills ``calls``. Broken call arguments are replaced by valid JSON."""
        self._join()
        parts: list[Part] = []
        self.calls = []
        for part in self._parts:
            if isinstance(part, ToolCallPart):
                call = check_call(part, truncated=self.reason == "length")
                self.calls.append(call)
                parts.append(call.part)
            else:
                parts.append(part)
        return Message(role="assistant", parts=tuple(parts))

    def _extend(self, new: TextPart | ReasoningPart) -> None:
        last = self._parts[-1] if self._parts else None
        same = type(last) is type(new)
        if same and isinstance(last, ReasoningPart) and isinstance(new, ReasoningPart):
            same = last.field == new.field
        if same and self._pieces:
            # Joined once at the end: an answer may come in a million pieces.
            self._pieces.append(new.text)
            return
        self._join()
        self._parts.append(new)
        self._pieces = [new.text]

    def _join(self) -> None:
        """Puts the collected pieces into the last part."""
        pieces, self._pieces = self._pieces, []
        if len(pieces) > 1:
            self._parts[-1] = self._parts[-1].model_copy(update={"text": "".join(pieces)})


class History:
    """Messages of a run, mirrored to the session as they are appended.

    ``messages`` is the complete log; ``view`` is what a model is shown of it, which a
    compaction makes smaller and ``undo`` gives back.
    """

    def __init__(
        self, session: EventLog, messages: Iterable[Message], *, past: Iterable[Message] = ()
    ) -> None:
        """``past``: what the session holds already; calls it left open are answered first of all."""
        self._session = session
        self.messages = MessageLog(session.payload)
        self.view: list[Message] = []
        self.plan = ViewPlan()
        self.generation = 0
        """Changes whenever the view is made anew; between that it only grows."""
        self._earlier: list[ViewPlan] = []
        self._open: dict[str, ToolCallPart] = {}
        for message in past:
            self._add(message, None)
        self.close_open_calls("no result: the conversation was interrupted or taken back to here")
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        if message.role in ("system", "user"):
            message = _clean_message(message)
        dropped = self._session.dropped
        seq = self._session.append("message", message.model_dump())
        self._add(message, seq if self._session.dropped == dropped else None)

    def _add(self, message: Message, stored_as: int | None) -> None:
        self.view.append(message)
        self.messages.add(message, stored_as)
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                self._open[part.id] = part
            elif isinstance(part, ToolResultPart):
                self._open.pop(part.call_id, None)

    def compact(self, plan: ViewPlan) -> None:
        """Shows only what the plan says. What is not shown whole leaves memory, never the store."""
        self._earlier.append(self.plan)
        self._show(plan)

    def undo(self) -> bool:
        """Takes the latest compaction back, recorded in the session; False when there is none."""
        if not self._earlier:
            return False
        self._show(self._earlier.pop())
        self._session.append("context_restored", {"view": self.plan.model_dump()})
        return True

    def _show(self, plan: ViewPlan) -> None:
        self.plan = plan
        self.view = render(self.messages, plan, self._session.keep)
        self.generation += 1
        cuts = plan.cut_at()
        self.messages.release(index for index in cuts if index >= plan.head)
        self.messages.release(range(plan.head, plan.tail))

    def close_open_calls(self, why: str) -> list[ToolResultPart]:
        """Gives every call that has no result yet one that says why; returns them."""
        results = [
            ToolResultPart(call_id=call.id, name=call.name, text=why, is_error=True)
            for call in self._open.values()
        ]
        for result in results:
            self.append(Message(role="tool", parts=(result,)))
        return results


SHOWN_END = "call above was asked to show:"
"""How the text before the images of a tool ends."""


def image_message(shown: Iterable[tuple[str, tuple[ImagePart, ...]]]) -> Message | None:
    """The user message with the images of a step's results ((tool, images) each), or None without any.

    Tool messages are text only in the protocols, so images follow once all results are there.
    """
    parts: list[Part] = []
    for name, images in shown:
        if images:
            parts += [TextPart(text=f"What the {name} {SHOWN_END}"), *images]
    return Message(role="user", parts=tuple(parts)) if parts else None


def check_call(part: ToolCallPart, *, truncated: bool) -> Call:
    """Makes a call fit for the history and says what is wrong with it, if anything.

    Valid JSON stays byte for byte; text that only a lenient reader takes (raw control
    characters in strings, an object inside a string) is written anew.
    """
    name = part.name or UNNAMED
    halved = False
    if not part.arguments.isascii():
        whole_text = _without_halves(part.arguments)
        halved = whole_text.count("\ufffd") > part.arguments.count("\ufffd")
        part = part.model_copy(update={"arguments": whole_text})
    try:
        value = json.loads(part.arguments, strict=False)
        if isinstance(value, str):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError) as error:
        near = None if truncated else read_near_json(part.arguments)
        if near is None:
            return _broken(part, name, truncated, str(error))
        value, fault = _without_halves(near[0]), near[1]
        arguments = json.dumps(value)
        if halved or value != near[0]:
            return _halved(part, name, arguments)
        remark = f"[The arguments were not valid JSON ({fault}); they were read as {_shown(arguments)}]"
        return Call(part.model_copy(update={"name": name, "arguments": arguments}), value, remark=remark)
    if not isinstance(value, dict):
        return _broken(part, name, truncated, f"an object is needed, not {type(value).__name__}")
    whole = _without_halves(value) if "\\ud" in part.arguments.lower() else value
    arguments = _valid(part.arguments, value) if whole == value else json.dumps(whole)
    if halved or whole != value:
        return _halved(part, name, arguments)
    return Call(part.model_copy(update={"name": name, "arguments": arguments}), whole)


def _halved(part: ToolCallPart, name: str, arguments: str) -> Call:
    """Half a character has no meaning: what would be written in its place is not what was meant."""
    problem = (
        "nothing was run: the arguments hold half of a character (a surrogate without its partner)."
        " Write the character whole"
    )
    return Call(part.model_copy(update={"name": name, "arguments": arguments}), None, problem)


def clean_text(text: str) -> str:
    """Text that can be sent and stored: surrogate pairs joined, lone halves replaced, secrets removed."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return redact(text)


def clean_data(value: Any) -> Any:
    """``clean_text`` for typed data: JSON values with every string cleaned."""

    def clean(item: Any) -> Any:
        if isinstance(item, str):
            return item if item.isascii() else clean_text(item)
        if isinstance(item, dict):
            return {clean(key): clean(content) for key, content in item.items()}
        if isinstance(item, list | tuple):
            return [clean(content) for content in item]
        return item

    return clean(redact_json(value))


def _clean_message(message: Message) -> Message:
    """What a person or a file said, fit to be sent: see ``clean_text``."""
    parts = tuple(
        part.model_copy(update={"text": clean_text(part.text)}) if isinstance(part, TextPart) else part
        for part in message.parts
    )
    return message if parts == message.parts else message.model_copy(update={"parts": parts})


def _valid(raw: str, value: dict[str, Any]) -> str:
    try:
        if isinstance(json.loads(raw), dict):
            return raw
    except ValueError:
        pass
    return json.dumps(value)


def _without_halves(value: Any) -> Any:
    """Escapes may name half of a surrogate pair, which no file, command line or request can hold."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(content) for key, content in value.items()}
    return [_without_halves(item) for item in value] if isinstance(value, list) else value


def _shown(arguments: str) -> str:
    return arguments if len(arguments) <= 300 else f"{arguments[:300]}..."


def _broken(part: ToolCallPart, name: str, truncated: bool, why: str) -> Call:
    kept = json.dumps({"invalid_arguments": part.arguments[:2000]})
    if truncated:
        problem = (
            "the answer was cut off at the output limit inside the arguments of this call, so it was not run;"
            " write less in one call, for example several smaller edits"
        )
    else:
        problem = f"the arguments are not valid JSON ({why}), so the call was not run; send it again"
    return Call(part.model_copy(update={"name": name, "arguments": kept}), None, problem)
