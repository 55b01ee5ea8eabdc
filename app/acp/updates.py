"""From what a run tells to what an editor shows: session updates of the Agent Client Protocol.

Pure data in, pure data out. Nothing empty is ever sent: editors differ in what they make of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from acp import helpers
from acp.schema import PlanEntryStatus, ToolCallLocation, ToolKind

from ..agent.permissions import subject_of
from ..fix.events import JobEvent

Update = Any
"""One of the library's ``SessionUpdate`` models."""

_KINDS: Mapping[str, ToolKind] = {
    "read": "read",
    "list": "read",
    "view_image": "read",
    "glob": "search",
    "search": "search",
    "symbols": "search",
    "locate": "search",
    "edit": "edit",
    "multi_edit": "edit",
    "write": "edit",
    "apply_patch": "edit",
    "bash": "execute",
    "run_tests": "execute",
    "repair": "execute",
    "web_fetch": "fetch",
    "ask": "other",
}
_BY_PERMISSION: Mapping[str, ToolKind] = {
    "read": "read",
    "write": "edit",
    "execute": "execute",
    "network": "fetch",
}
_STATUS: Mapping[str, PlanEntryStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}
_MOST_CHARACTERS = 60_000
"""Of one tool output that is sent; the whole is in the session."""


class Translator:
    """The updates of one turn, in order.

    Args:
        root: absolute path of the person's repository, for places in its files.
    """

    def __init__(self, root: str) -> None:
        self._root = PurePosixPath(root)

    def updates(self, event: JobEvent) -> Iterator[Update]:
        """What an editor is told of an event; often nothing."""
        if event.kind == "warning" and event.text.strip():
            yield helpers.update_agent_thought_text(f"note: {event.text.strip()}\n")
        elif event.kind == "agent":
            make = getattr(self, f"_on_{event.data.get('kind')}", None)
            if make is not None:
                yield from make(event.data)

    # ------------------------------------------------------------ one method per kind of agent event

    def _on_text_delta(self, data: Mapping[str, Any]) -> Iterator[Update]:
        if data["text"]:
            yield helpers.update_agent_message_text(data["text"])

    def _on_reasoning_delta(self, data: Mapping[str, Any]) -> Iterator[Update]:
        if data["text"]:
            yield helpers.update_agent_thought_text(data["text"])

    def _on_step_discarded(self, data: Mapping[str, Any]) -> Iterator[Update]:
        # The protocol cannot take text back; the person must know that it counts no more.
        yield helpers.update_agent_thought_text(
            f"\nnote: the step is repeated, what it said before counts no more ({data['reason']})\n"
        )

    def _on_tool_started(self, data: Mapping[str, Any]) -> Iterator[Update]:
        name, arguments = str(data["name"]), dict(data.get("arguments") or {})
        if name == "todo":
            return
        yield helpers.start_tool_call(
            str(data["call_id"]),
            title_of(name, arguments),
            kind=kind_of(name, str(data.get("permission", ""))),
            status="in_progress",
            locations=self._places(arguments),
            raw_input=arguments,
        )

    def _on_tool_progress(self, data: Mapping[str, Any]) -> Iterator[Update]:
        if data["name"] == "todo" or not data["text"].strip():
            return
        yield helpers.update_tool_call(
            str(data["call_id"]), status="in_progress", content=[_text(data["text"])]
        )  # fmt: skip

    def _on_tool_finished(self, data: Mapping[str, Any]) -> Iterator[Update]:
        if data["name"] == "todo":
            items = (data.get("data") or {}).get("items") or []
            if items:
                yield helpers.update_plan(
                    helpers.plan_entry(item["text"], status=_STATUS.get(item["status"], "pending"))
                    for item in items
                )
            return
        shown = _bounded(str(data["text"]))
        yield helpers.update_tool_call(
            str(data["call_id"]),
            status="failed" if data["is_error"] else "completed",
            content=[_text(shown)] if shown.strip() else None,
        )

    def _on_notice(self, data: Mapping[str, Any]) -> Iterator[Update]:
        if data["text"].strip():
            yield helpers.update_agent_thought_text(f"note: {data['text'].strip()}\n")

    _on_model_notice = _on_limit_reached = _on_context_compacted = _on_notice

    def _places(self, arguments: Mapping[str, Any]) -> list[ToolCallLocation] | None:
        path: Any = arguments.get("path")
        if not isinstance(path, str) or not path or path.startswith("artifact:"):
            return None
        line: Any = arguments.get("start_line", arguments.get("line"))
        where = str(self._root / path)
        return [ToolCallLocation(path=where, line=line if isinstance(line, int) and line > 0 else None)]


def title_of(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool's name and what it is about, on one line."""
    from ..sessions.export import one_line

    subject = one_line(subject_of(dict(arguments)))
    return f"{name} {subject}"[:200].rstrip()


def kind_of(name: str, permission: str) -> ToolKind:
    """The protocol's kind of a tool call; editors choose an icon by it."""
    return _KINDS.get(name) or _BY_PERMISSION.get(permission, "other")


def _text(text: str) -> Any:
    return helpers.tool_content(helpers.text_block(text))


def _bounded(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = _MOST_CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"
