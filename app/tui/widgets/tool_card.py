"""One tool call: a line while nobody asks, its result when somebody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.content import Content
from textual.timer import Timer

from ...agent.events import ToolFinished, ToolProgress, ToolStarted
from .expandable import Expandable, seconds, spread, styled
from .plain_text import one_line
from .strips_widget import CODE_COLOURS
from .tool_body import body_of, outcome_of, subject_line, went_badly

__all__ = ["ToolCard"]

ICONS = {
    "bash": "$", "read": "▤", "list": "▤", "glob": "▤", "search": "⌕", "symbols": "⌕", "locate": "◎",
    "edit": "✎", "multi_edit": "✎", "write": "✎", "apply_patch": "✎", "run_tests": "▷", "repair": "⚒",
    "git": "⎇", "todo": "≡", "view_image": "▣", "sub_agent": "◈", "ask": "?", "web_fetch": "↗",
}  # fmt: skip


class ToolCard(Expandable):
    """Shows ``started`` at once, then progress, then the result. Never interprets any of it."""

    COLOURS: ClassVar[Mapping[str, str]] = {
        **CODE_COLOURS,
        "icon": "$text-secondary",
        "title": "bold",
        "subject": "$foreground",
        "muted": "$foreground 60%",
        "ok": "$text-success",
        "error": "$text-error",
        "active": "$text-warning bold",
        "added": "$text-success",
        "removed": "$text-error",
        "hunk": "$text-accent",
    }
    DEFAULT_CSS = """
    ToolCard {
        height: auto; width: 1fr; color: $foreground; padding: 0 1; border-left: outer $panel-lighten-1;
        &:focus { border-left: outer $accent; background: $foreground 4%; }
        &.-running { border-left: outer $warning; }
        &.-failed { border-left: outer $error; }
    }
    """

    def __init__(
        self,
        started: ToolStarted,
        *,
        clock: Callable[[], float] = time.monotonic,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.started = started
        self.finished: ToolFinished | None = None
        self._clock = clock
        self._began = clock()
        self._steps: list[str] = []
        """Lines of progress, the newest last; the repeated ones replace each other."""
        self._phase = ""
        self._timer: Timer | None = None
        self._body: tuple[int, list[Content]] | None = None
        self.add_class("-running")

    @property
    def call_id(self) -> str:
        return self.started.call_id

    def on_mount(self) -> None:
        if self.finished is None:
            self._timer = self.set_interval(1.0, self._tick)

    def progress(self, event: ToolProgress) -> None:
        """One more step inside the tool."""
        text = one_line(event.text)
        if self._steps and event.phase == self._phase:
            self._steps[-1] = text
        else:
            self._steps.append(text)
            del self._steps[:-200]
        self._phase = event.phase
        self._body = None
        self.changed()

    def finish(self, event: ToolFinished) -> None:
        """The result; errors show their first line without being opened."""
        self.finished = event
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._body = None
        self.remove_class("-running")
        self.set_class(event.is_error, "-failed")
        self.changed()

    def renew(self) -> Callable[[], ToolCard] | None:
        """What makes this widget again; None while the tool runs."""
        started, finished, opened = self.started, self.finished, (self.expanded, self.shows_all)
        if finished is None:
            return None

        def make() -> ToolCard:
            made = ToolCard(started)
            made.expanded, made.shows_all = opened
            made.finish(finished)
            return made

        return make

    @property
    def running_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began

    def _tick(self) -> None:
        self.changed()

    # ------------------------------------------------------------ lines

    @property
    def text(self) -> str:
        """What find looks through: subject and result."""
        subject = subject_line(self.started.name, self.started.arguments)
        return f"{self.started.name} {subject}\n{self.finished.text if self.finished else ''}"

    def head(self, width: int) -> Content:
        started, finished = self.started, self.finished
        if finished is None:
            mark, state, took = styled("●", "active"), "", seconds(self._clock() - self._began)
        else:
            bad = finished.is_error or went_badly(finished.name, finished.data)
            mark = styled("✗", "error") if bad else styled("✓", "ok")
            state = outcome_of(started.name, finished.data, finished.text, is_error=finished.is_error)
            took = seconds(finished.duration_s)
        icon = ICONS.get(started.name, "◇")
        subject = subject_line(started.name, started.arguments)
        name = one_line(started.name, 60)
        left = Content(" ").join(
            [mark, styled(icon, "icon"), styled(name, "title"), styled(subject, "subject")]
        )
        right = styled("  ".join(part for part in (one_line(state, 60), took) if part), "muted")
        return spread(left, right, width)

    def peek(self, width: int) -> Sequence[Content]:
        if self.finished is None:
            return (
                [styled(f"  {self._steps[-1]}", "muted").truncate(width, ellipsis=True)]
                if self._steps
                else ()
            )
        if self.finished.is_error:
            return [styled(f"  {one_line(self.finished.text, 300)}", "error").truncate(width, ellipsis=True)]
        return ()

    def body(self, width: int) -> Sequence[Content]:
        if self._body is None or self._body[0] != width:
            self._body = (width, self._make_body(max(10, width - 2)))
        return self._body[1]

    def _make_body(self, width: int) -> list[Content]:
        finished = self.finished
        if finished is None:
            lines = [styled(step, "muted").truncate(width, ellipsis=True) for step in self._steps]
        else:
            lines = body_of(
                finished.name,
                self.started.arguments,
                finished.data,
                finished.text,
                width,
                is_error=finished.is_error,
            )
        if self.started.name == "bash":
            command = str(self.started.arguments.get("command", ""))
            if "\n" in command.strip():
                shown = command.strip().split("\n")
                lines = [
                    styled(one_line(line), "name").truncate(width, ellipsis=True) for line in shown
                ] + lines
        return [Content("  ") + line for line in lines]
