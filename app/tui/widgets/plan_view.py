"""The model's plan: what is done, what it is at, what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.content import Content
from textual.strip import Strip

from .expandable import spread, styled
from .strips_widget import StripsWidget, strip_of
from .tool_body import todo_line

__all__ = ["PlanView"]


class PlanView(StripsWidget):
    """Items as the ``todo`` tool has them: ``{"text", "status"}``; as tall as the plan, hidden when empty."""

    COLOURS: ClassVar[Mapping[str, str]] = {
        "title": "bold",
        "muted": "$foreground 60%",
        "active": "$text-warning bold",
        "bar": "$text-success",
        "line": "$foreground 38%",
    }
    DEFAULT_CSS = """
    PlanView { height: auto; width: 1fr; color: $foreground; padding: 0 1; display: none;
        &.-some { display: block; }
    }
    """

    def __init__(
        self,
        items: Sequence[Mapping[str, Any]] = (),
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._items: list[Mapping[str, Any]] = []
        self._made: tuple[int, list[Strip]] | None = None
        self.show(items)

    @property
    def items(self) -> Sequence[Mapping[str, Any]]:
        return self._items

    def show(self, items: Sequence[Mapping[str, Any]]) -> None:
        """The whole plan anew."""
        self._items = list(items)
        self._made = None
        self.set_class(bool(self._items), "-some")
        if self.is_mounted:
            self.refresh(layout=True)

    def forget_strips(self) -> None:
        self._made = None

    def strips_for(self, width: int) -> Sequence[Strip]:
        if self._made is None or self._made[0] != width:
            self._made = (width, [strip_of(line, self.palette) for line in self._lines(width)])
        return self._made[1]

    def _lines(self, width: int) -> list[Content]:
        total, done = len(self._items), sum(item.get("status") == "done" for item in self._items)
        full = round(10 * done / total) if total else 0
        bar = styled("━" * full, "bar") + styled("─" * (10 - full), "line")
        lines = [spread(styled("Plan", "title"), bar + styled(f" {done}/{total}", "muted"), width)]
        for item in self._items:
            content = todo_line(item)
            wrapped = content[2:].wrap(max(8, width - 2))
            lines += [
                (content[:2] if index == 0 else Content("  ")) + line for index, line in enumerate(wrapped)
            ]
        return lines
