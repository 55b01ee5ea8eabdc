"""From what a run tells to what the conversation shows. Pure routing: no decisions, no widgets made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..fix.events import JobEvent

if TYPE_CHECKING:
    from ..agent.events import ToolFinished, ToolProgress, ToolStarted


class Shows(Protocol):
    """What the feed needs of a conversation."""

    def text(self, piece: str) -> None: ...
    def reasoning(self, piece: str) -> None: ...
    def end_step(self) -> None: ...
    def discard_step(self, reason: str) -> None: ...
    def tool_started(self, event: ToolStarted) -> None: ...
    def tool_progress(self, event: ToolProgress) -> None: ...
    def tool_finished(self, event: ToolFinished) -> None: ...
    def note(self, text: str, kind: str = "info") -> None: ...


def show(event: JobEvent, to: Shows) -> None:
    """One event of a run; phases, progress and results are the status line's and the screen's business."""
    if event.kind in ("info", "warning"):
        to.note(event.text, event.kind)
    elif event.kind == "agent":
        _agent(event.data, to)


def _agent(data: dict[str, Any], to: Shows) -> None:
    from ..agent.events import ToolFinished, ToolProgress, ToolStarted

    match data.get("kind"):
        case "text_delta":
            to.text(str(data["text"]))
        case "reasoning_delta":
            to.reasoning(str(data["text"]))
        case "step_started" | "run_finished":
            to.end_step()
        case "step_discarded":
            to.discard_step(str(data.get("reason", "")))
        case "tool_started":
            to.tool_started(ToolStarted.model_validate(data))
        case "tool_progress":
            to.tool_progress(ToolProgress.model_validate(data))
        case "tool_finished":
            to.tool_finished(ToolFinished.model_validate(data))
        case "permission_answered":
            _answered(data, to)
        case _:
            # Notices come once more as info and warning lines; the rest is for the rail.
            pass


def _answered(data: dict[str, Any], to: Shows) -> None:
    answer, request = data.get("answer") or {}, data.get("request") or {}
    what = f"{request.get('tool', '')} {request.get('subject', '')}".strip()
    if not answer.get("allowed"):
        note = f": {answer['note']}" if answer.get("note") else ""
        to.note(f"you denied {what}{note}", "warning")
    elif answer.get("remember"):
        scope = "in this repository" if answer.get("store") else "in this run"
        to.note(f"you allowed {answer.get('prefix') or what} {scope}")
