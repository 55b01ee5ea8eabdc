"""One line that opens to many: the base of tool cards and reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.content import Content, Span
from textual.message import Message
from textual.strip import Strip

from .strips_widget import Lines, StripsWidget, row_of

__all__ = ["Expandable", "seconds"]

MOST_LINES = 20_000
"""What "all" means at most; beyond it stands a log viewer."""


class Expandable(StripsWidget, can_focus=True):
    """Enter, space or a click on the first line opens and closes; a click on the last line shows all."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "open_close", "Open / close"),
        ("space", "open_close", "Open / close"),
        ("a", "show_all", "All lines"),
    ]
    LINES = 20
    """Lines of an opened body before the rest is folded away with its count."""

    class Toggled(Message):
        def __init__(self, expandable: Expandable) -> None:
            super().__init__()
            self.expandable = expandable

        @property
        def control(self) -> Expandable:
            return self.expandable

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.expanded = False
        self.shows_all = False
        self._made: tuple[int, Lines] | None = None

    # ------------------------------------------------------------ for the subclass

    def head(self, width: int) -> Content:
        """The line that is always there."""
        raise NotImplementedError

    def body(self, width: int) -> Sequence[Content]:
        """What opening shows."""
        raise NotImplementedError

    def peek(self, width: int) -> Sequence[Content]:
        """Lines shown below the head while closed."""
        return ()

    # ------------------------------------------------------------ opening and closing

    def action_open_close(self) -> None:
        self.expanded = not self.expanded
        self.shows_all = False
        self.changed()
        self.post_message(self.Toggled(self))

    def action_show_all(self) -> None:
        self.expanded = self.shows_all = True
        self.changed()
        self.post_message(self.Toggled(self))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self.text_selection is not None:
            return
        lines = len(self._made[1]) if self._made else 0
        if offset.y == 0:
            self.action_open_close()
        elif self.expanded and not self.shows_all and offset.y == lines - 1 and lines > self.LINES + 1:
            self.action_show_all()

    def changed(self) -> None:
        """The body or the state is another now."""
        before = len(self._made[1]) if self._made else -1
        width = self._made[0] if self._made else 0
        self._made = None
        if not self.is_mounted:
            return
        same = width > 0 and len(self.strips_for(width)) == before
        self.refresh(layout=not same)

    # ------------------------------------------------------------ lines

    def forget_strips(self) -> None:
        self._made = None

    def strips_for(self, width: int) -> Sequence[Strip]:
        if self._made is None or self._made[0] != width:
            palette = self.palette
            lines = [self.head(width)]
            lines += self._folded_away(self.body(width)) if self.expanded else self.peek(width)
            self._made = (width, Lines(row_of(line, palette) for line in lines))
        return self._made[1]

    def _folded_away(self, lines: Sequence[Content]) -> list[Content]:
        shown = MOST_LINES if self.shows_all else self.LINES
        hidden = len(lines) - shown
        if hidden <= 1:
            return list(lines)
        what = f"  … {hidden:,} more lines" + ("" if self.shows_all else " (a or click: all)")
        return [*lines[:shown], Content(what, [Span(0, len(what), "muted")])]


def seconds(value: float) -> str:
    """A duration in few characters."""
    if value < 0.05:
        return ""
    if value < 10:
        return f"{value:.1f} s"
    if value < 60:
        return f"{value:.0f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def spread(left: Content, right: Content, width: int) -> Content:
    """Both on one line, the right one at the edge; the left one is cut where it must."""
    room = width - right.cell_length - 1
    if room < 8:
        return left.truncate(width, ellipsis=True)
    left = left.truncate(room, ellipsis=True)
    return left + Content(" " * (width - left.cell_length - right.cell_length)) + right


def styled(text: str, style: str) -> Content:
    return Content(text, [Span(0, len(text), style)]) if text else Content("")


def fits(text: str, width: int) -> bool:
    return cell_len(text) <= width
