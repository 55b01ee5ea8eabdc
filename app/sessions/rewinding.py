"""Going back in a conversation, and the list of turns to choose from. Nothing is deleted by either."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...sandbox.base.errors import UsageError
from .keeping import check_seq
from .replay import replay
from .store import SessionStore

What = Literal["files", "chat", "both"]


@dataclass(frozen=True)
class Line:
    """One message or event worth choosing as a place to go back to."""

    seq: int
    kind: str
    """user, assistant, files, rewound or forked."""
    text: str
    current: bool
    """False for a message that is no part of the conversation as it stands."""


def rewind(store: SessionStore, prefix: str, to: int, what: What) -> str:
    """Takes a session back to how it was after message ``to``; returns one line about it.

    Raises:
        UsageError: no such session or message, another process writes it, or the files of that
            turn are not kept.
    """
    info = store.find(prefix)
    end = check_seq(store, info, to)
    there = replay(store.events(info.id), upto=end)
    if what != "chat" and there.files is not None:
        if there.files.problem:
            raise UsageError(
                f"the files of message {to} cannot be had: {there.files.problem}",
                hint="--chat takes only the words back",
            )
        try:
            if there.files.diff:
                store.blob(there.files.diff)
        except KeyError as error:
            raise UsageError(
                f"the files of message {to} are older than what the session may keep (sessions.snapshots_mb)",
                hint="--chat takes only the words back",
            ) from error
    with store.reopen(info.id) as writer:
        writer.append(
            "rewound", {"to": end, "chat": what != "files", "files": what != "chat"}, parent_seq=end
        )
        writer.close("rewound")
    parts: list[str] = []
    if what != "files":
        parts.append(f"{len(there.said)} messages are left")
    if what != "chat":
        parts.append("the files are those of the repository" if there.files is None
                     else "the files are those it left")  # fmt: skip
    return f"session {info.id} is back at message {to}: {', '.join(parts)}"


def turns(store: SessionStore, session_id: str) -> Iterator[Line]:
    """What was said and which file states were recorded, oldest first."""
    events = list(store.events(session_id))
    now = replay(events)
    current = {each.seq for each in now.said}
    for event in events:
        payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
        if event.kind == "message" and payload.get("role") in ("user", "assistant"):
            yield Line(event.seq, str(payload["role"]), _first_words(payload), event.seq in current)
        elif event.kind == "files":
            state = "files as in the repository" if not payload.get("diff") else "files recorded"
            text = str(payload.get("problem") or "") or state
            yield Line(event.seq, "files", text, True)
        elif event.kind == "rewound":
            what = " and ".join(name for name in ("chat", "files") if payload.get(name))
            yield Line(event.seq, "rewound", f"{what} back to {payload.get('to')}", True)
        elif event.kind == "forked":
            yield Line(event.seq, "forked", f"from {payload.get('from')} at {payload.get('at')}", True)


def _first_words(payload: dict[str, Any]) -> str:
    parts = payload.get("parts")
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict) and part.get("kind") == "text" and str(part.get("text", "")).strip():
            return str(part["text"]).strip().splitlines()[0]
        if isinstance(part, dict) and part.get("kind") == "tool_call":
            return f"[calls {part.get('name')}]"
    return ""
