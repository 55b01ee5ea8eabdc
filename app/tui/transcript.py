"""A recorded session as the conversation shows it: the same calls that a live run makes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from ...engine.chat import ImagePart
from ..agent.events import ToolFinished, ToolStarted
from ..agent.history import SHOWN_END
from ..sessions.store import SessionEvent
from .feed import Shows


class Speaks(Shows, Protocol):
    """A conversation that shows what the person said, too."""

    def say(self, text: str) -> None: ...
    def image(self, part: ImagePart, caption: str = "") -> None: ...


def follow(events: Iterable[SessionEvent], to: Speaks) -> None:
    """Shows stored events; calls are put up when the model made them and closed by their results."""
    for event in events:
        payload: Any = event.payload
        if not isinstance(payload, dict):
            continue
        if event.kind == "message":
            _message(payload, to)
        elif event.kind == "run_ended":
            to.end_step()
            to.note(f"{payload.get('status', '')}: {payload.get('message', '')}", "ended")
        elif event.kind == "context_compacted":
            to.note(str(payload.get("text", "")))
        elif event.kind == "rewound":
            to.note(f"went back to message {payload.get('to')}")
        elif event.kind == "permission_answered" and not (payload.get("answer") or {}).get("allowed"):
            to.note(f"denied: {(payload.get('request') or {}).get('subject', '')}", "warning")


def _message(payload: dict[str, Any], to: Speaks) -> None:
    role, parts = payload.get("role"), payload.get("parts") or []
    if role == "user":
        text = "\n".join(str(part.get("text", "")) for part in parts if part.get("kind") == "text")
        if text.endswith(SHOWN_END):
            to.note(text.removesuffix(":"))
        else:
            to.say(person_words(text))
        for part in parts:
            if part.get("kind") == "image":
                to.image(ImagePart.model_validate(part))
        return
    for part in parts:
        match part.get("kind"):
            case "reasoning" if role == "assistant" and str(part.get("text", "")).strip():
                to.reasoning(str(part["text"]))
            case "text" if role == "assistant" and str(part.get("text", "")).strip():
                to.text(str(part["text"]))
            case "tool_call":
                to.tool_started(
                    ToolStarted(
                        call_id=str(part.get("id", "")),
                        name=str(part.get("name", "")),
                        permission="",
                        arguments=_arguments(part),
                    )
                )
            case "tool_result":
                to.tool_finished(
                    ToolFinished(
                        call_id=str(part.get("call_id", "")),
                        name=str(part.get("name", "")),
                        text=str(part.get("text", "")),
                        data=part.get("data"),
                        is_error=bool(part.get("is_error")),
                    )
                )
            case _:
                pass
    if role == "assistant":
        to.end_step()


def person_words(text: str) -> str:
    """A first message without what was added for the model (facts and instructions stand in blocks)."""
    return text.partition("\n\nAbout the repository:\n")[0]


def _arguments(part: dict[str, Any]) -> dict[str, Any]:
    try:
        value: Any = json.loads(str(part.get("arguments") or "{}"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
