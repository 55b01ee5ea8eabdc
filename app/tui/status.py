"""The line above the prompt: what goes on now, for how long, with what."""

from __future__ import annotations

import time

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class StatusLine(Widget):
    """Cut to one line; the right side goes first when there is no room."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self._phase = ""
        self._detail = ""
        self._right = ""
        self._began = 0.0
        self._frame = 0
        self._step_began = 0.0

    def begin(self) -> None:
        """A run starts."""
        self._began = time.monotonic()
        self._phase, self._detail = "Starting", ""
        self.refresh()

    def phase(self, text: str) -> None:
        self._phase, self._detail = text, ""
        self.refresh()

    def progress(self, text: str) -> None:
        self._detail = " ".join(text.split())
        self.refresh()

    def end(self, text: str = "") -> None:
        """Nothing runs any more."""
        self._began = 0.0
        self._phase, self._detail = text, ""
        self.refresh()

    def right(self, text: str) -> None:
        """Model, tier, sandbox: what the next run uses."""
        self._right = text
        self.refresh()

    def beat(self) -> None:
        """Moves the spinner and the clock, while something runs."""
        if self._began:
            self._frame = (self._frame + 1) % len(_FRAMES)
            self.refresh()

    def render(self) -> RenderResult:
        width = self.content_size.width
        left = self._phase
        if self._detail:
            left = f"{left} · {self._detail}" if left else self._detail
        if self._began:
            left = f"{_FRAMES[self._frame]} {_clock(time.monotonic() - self._began)} {left}"
        room = width - len(self._right) - 2
        shown = Content(left).truncate(max(room, 0) if room >= 20 else width, ellipsis=True)
        if room < 20:
            return shown
        gap = " " * max(1, width - shown.cell_length - Content(self._right).cell_length)
        return Content.assemble(shown, gap, Content(self._right).stylize("dim"))


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
