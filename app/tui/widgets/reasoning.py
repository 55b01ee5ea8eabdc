"""What the model thought: one quiet line, all of it when opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.content import Content, Span
from textual.strip import Strip
from textual.timer import Timer

from .expandable import Expandable, seconds, spread, styled
from .plain_text import clean, counted
from .strips_widget import Lines, Row, row_of

__all__ = ["Reasoning"]

LONGEST_OPEN = 4000


class Reasoning(Expandable):
    """Streams like an answer: what was laid out once is not laid out again."""

    RATE = 10
    COLOURS: ClassVar[Mapping[str, str]] = {
        "head": "italic",
        "text": "$foreground 60%",
    }
    DEFAULT_CSS = """
    Reasoning {
        height: auto; width: 1fr; color: $text-muted; padding: 0 1; border-left: outer $panel;
        &:focus { border-left: outer $accent; }
    }
    """

    def __init__(
        self,
        text: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._parts: list[str] = []
        self._tail = ""
        self._clock = clock
        self._began = clock()
        self._took: float | None = None
        self._words = 0
        self._ticker: Timer | None = None
        self._waiting: Timer | None = None
        self._width = 0
        self._settled: list[Row] = []
        if text:
            self.append(text)
            self.finish()
            self._took = 0.0

    @property
    def text(self) -> str:
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def on_mount(self) -> None:
        if self._took is None:
            self._ticker = self.set_interval(1.0, self.changed)

    def append(self, text: str) -> None:
        """More of it; shown at the next tick."""
        self._parts.append(text)
        self._words += text.count(" ") + text.count("\n")
        self._tail += text
        if self.expanded and self.is_mounted and self._waiting is None:
            self._waiting = self.set_timer(1 / self.RATE, self._show)

    def finish(self) -> None:
        """It thinks no more."""
        self._took = self._clock() - self._began
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        self.changed()

    def discard(self) -> None:
        """The step is repeated."""
        self._parts.clear()
        self._tail, self._words, self._settled, self._took = "", 0, [], None
        self._width = 0
        self.changed()

    def renew(self) -> Callable[[], Reasoning] | None:
        """What makes this widget again; None while it grows."""
        if self._took is None:
            return None
        text, took, expanded, classes = self.text, self._took, self.expanded, " ".join(self.classes)

        def make() -> Reasoning:
            made = Reasoning(text, classes=classes)
            made._took, made.expanded = took, expanded
            return made

        return make

    def _show(self) -> None:
        self._waiting = None
        self.changed()

    # ------------------------------------------------------------ lines

    def forget_strips(self) -> None:
        super().forget_strips()
        if self._width:
            self._settled, self._width = [], 0
            self._tail = self.text

    def head(self, width: int) -> Content:
        if self._took is None:
            title, took = "Thinking", self._clock() - self._began
        else:
            title, took = "Thought", self._took
        sign = "▾" if self.expanded else "▸"
        right = "  ".join(part for part in (counted(self._words + 1, "word"), seconds(took)) if part)
        return spread(styled(f"{sign} {title}", "head"), styled(right, "muted"), width)

    def strips_for(self, width: int) -> Sequence[Strip]:
        if not self.expanded:
            return super().strips_for(width)
        if self._made is None or self._made[0] != width:
            self._made = (width, Lines([row_of(self.head(width), self.palette), *self._text_rows(width)]))
        return self._made[1]

    def _text_rows(self, width: int) -> list[Row]:
        if width != self._width:
            self._settled, self._width, self._tail = [], width, self.text
        *whole, rest = self._tail.split("\n")
        while len(rest) > LONGEST_OPEN:
            cut = rest.rfind(" ", 0, LONGEST_OPEN) + 1 or LONGEST_OPEN
            whole.append(rest[:cut])
            rest = rest[cut:]
        for line in whole:
            self._settled += self._wrapped(line, width)
        self._tail = rest
        return [*self._settled, *(self._wrapped(rest, width) if rest.strip() else ())]

    def _wrapped(self, line: str, width: int) -> list[Row]:
        text = clean(line)
        content = Content(text, [Span(0, len(text), "text")])
        return [row_of(Content("  ") + each, self.palette) for each in content.wrap(max(8, width - 2))]
