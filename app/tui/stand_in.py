"""Plain stand-ins for the conversation's widgets."""

from __future__ import annotations

from typing import Any

from textual.widgets import Static


class StreamingMarkdown(Static):
    def __init__(self) -> None:
        super().__init__("", markup=False)
        self.text = ""

    def append(self, text: str) -> None:
        self.text += text
        self.update(self.text)

    def finish(self) -> None:
        return

    def discard(self) -> None:
        self.remove()


class Reasoning(StreamingMarkdown):
    pass


class ToolCard(Static):
    def __init__(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        super().__init__(f"> {name} {arguments}", markup=False)
        self.head = f"> {name} {arguments}"

    def progress(self, text: str, fraction: float | None) -> None:
        self.update(f"{self.head}\n  {text}")

    def finish(self, event: dict[str, Any]) -> None:
        self.update(f"{self.head}\n{event.get('text', '')[:500]}")
