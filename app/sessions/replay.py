"""A stored session as the conversation it is: the messages a model gets again, and the files they left.

Nothing in the store is ever rewritten: going back appends a ``rewound`` event, and reading the
events in order tells where the conversation stands. So going back can itself be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from ...engine.chat import Message, OpaquePart, Part, ReasoningPart, TextPart, ToolResultPart
from .store import SessionEvent


@dataclass(frozen=True)
class Said:
    """One message, where it stands and which model it was made with."""

    seq: int
    model: str
    message: Message


@dataclass(frozen=True)
class FileState:
    """The files a turn left: ``diff`` leads from ``base_tree`` to ``tree``."""

    seq: int
    base_commit: str | None
    base_tree: str
    tree: str
    diff: str
    """Handle of a patch in git's own format; empty when nothing differs, or ``problem`` says why."""
    stored: int = 0
    """Bytes the patch takes in the store."""
    problem: str = ""
    """Why the state cannot be had again, or empty."""


@dataclass(frozen=True)
class Conversation:
    """Where a session stands."""

    said: tuple[Said, ...] = ()
    files: FileState | None = None
    """None: as the repository has them."""
    states: tuple[FileState, ...] = ()
    """Every state that was ever recorded, oldest first."""
    model: str = ""
    """Of the last turn."""
    last_seq: int = 0
    turn: int = 0
    """Where the last turn began."""
    unfinished: bool = False
    """The last turn has no end: its process was killed."""
    damaged: tuple[int, ...] = ()
    """Messages that cannot be read any more."""

    def messages(self, model: str) -> list[Message]:
        """The history for ``model``: verbatim, thinking included, where the same model said it.

        What another model thought, and parts only its provider understands, are left out. Every
        call has its one result: where a damaged message leaves a gap, it is filled or closed.
        """
        return _coherent(
            each.message if _name(each.model) == _name(model) else _portable(each.message)
            for each in self.said
        )


@dataclass
class _Reading:
    now: Conversation = field(default_factory=Conversation)
    at: dict[int, Conversation] = field(default_factory=dict[int, Conversation])


def replay(events: Iterable[SessionEvent], *, upto: int | None = None) -> Conversation:
    """Reads events in order (up to a sequence number) and tells where the session stands."""
    reading = _Reading()
    for event in events:
        if upto is not None and event.seq > upto:
            break
        payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
        reading.now = replace(_after(reading, event, payload), last_seq=event.seq)
        reading.at[event.seq] = reading.now
    return reading.now


def _after(reading: _Reading, event: SessionEvent, payload: dict[str, Any]) -> Conversation:
    now = reading.now
    if event.kind in ("turn_started", "run_started"):
        return replace(now, model=str(payload.get("model", "")), turn=event.seq, unfinished=True)
    if event.kind == "run_ended":
        return replace(now, unfinished=False)
    if event.kind == "message":
        try:
            message = Message.model_validate(payload)
        except ValidationError:
            return replace(now, damaged=(*now.damaged, event.seq))
        return replace(now, said=(*now.said, Said(event.seq, now.model, message)))
    if event.kind == "files":
        state = _state(event.seq, payload)
        if state is None:
            return replace(now, damaged=(*now.damaged, event.seq))
        return replace(now, files=state, states=(*now.states, state))
    if event.kind == "rewound":
        # An imported session may say anything here.
        to = payload.get("to")
        there = reading.at.get(to, Conversation()) if isinstance(to, int) else now
        if payload.get("chat"):
            now = replace(now, said=there.said)
        if payload.get("files"):
            now = replace(now, files=there.files, unfinished=False)
    return now


def _name(model: str) -> str:
    """A model string without the address: the same model served elsewhere is the same model."""
    return model.split("@http")[0]


def _coherent(messages: Iterable[Message]) -> list[Message]:
    """Without results that have no call, and with a result for each call but those of the last round."""
    result: list[Message] = []
    open_calls: dict[str, str] = {}
    for message in messages:
        if message.role == "tool":
            kept = tuple(
                part for part in message.parts
                if not isinstance(part, ToolResultPart) or open_calls.pop(part.call_id, None) is not None
            )  # fmt: skip
            if kept:
                result.append(
                    message if kept == message.parts else message.model_copy(update={"parts": kept})
                )
            continue
        for call_id, name in open_calls.items():
            lost = ToolResultPart(call_id=call_id, name=name, text="no result: it was lost", is_error=True)
            result.append(Message(role="tool", parts=(lost,)))
        open_calls = {part.id: part.name for part in message.tool_calls()}
        result.append(message)
    return result


def _state(seq: int, payload: dict[str, Any]) -> FileState | None:
    try:
        return FileState(
            seq,
            payload["base_commit"],
            str(payload["base_tree"]),
            str(payload["tree"]),
            str(payload["diff"]),
            int(payload.get("stored") or 0),
            str(payload.get("problem") or ""),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _portable(message: Message) -> Message:
    if message.role != "assistant":
        return message
    parts: tuple[Part, ...] = tuple(
        part for part in message.parts if not isinstance(part, ReasoningPart | OpaquePart)
    )
    if len(parts) == len(message.parts):
        return message
    return message.model_copy(update={"parts": parts or (TextPart(text="(no answer)"),)})
