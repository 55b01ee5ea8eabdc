"""An application around the widgets under test, and texts that broke other terminals."""

from collections.abc import Callable, Sequence

from textual.app import App, ComposeResult
from textual.widget import Widget
from whimbrel.app.agent.events import ToolFinished, ToolStarted

HOSTILE = "[/red] [foo] [@click=app.quit]x[/] [[[ ]] \\[ $primary"
"""Markup of the screen library, well and badly formed."""
WIDE = "漢字かな交じり文 한국어 👩‍👩‍👧 🎉 é ﷽"
ESCAPES = "\x1b[31mred\x1b[0m \x1b]8;;file:///etc/passwd\x07link\x1b]8;;\x07 \x1b[2J\x1b[H\x9b31m \x1bPq#0\x1b\\ 1%\r2% \x07\x00"


class Stage(App[None]):
    """Shows the widgets, and keeps the messages whose names are asked for."""

    CSS = "Screen { layout: vertical; }"

    def __init__(self, *make: Callable[[], Widget], theme: str = "textual-dark") -> None:
        super().__init__()
        self._make = make
        self._wanted_theme = theme

    def compose(self) -> ComposeResult:
        self.theme = self._wanted_theme
        for each in self._make:
            yield each()


def started(name: str, call_id: str = "1", **arguments: object) -> ToolStarted:
    return ToolStarted(call_id=call_id, name=name, permission="read", arguments=arguments)  # type: ignore[arg-type]


def finished(
    name: str, text: str = "", data: object = None, *, call_id: str = "1", error: bool = False
) -> ToolFinished:
    return ToolFinished(call_id=call_id, name=name, text=text, data=data, is_error=error, duration_s=1.2)  # type: ignore[arg-type]


def texts(strips: Sequence[object]) -> list[str]:
    """Plain lines of strips."""
    return [getattr(strip, "text", "").rstrip() for strip in strips]


def screen_text(app: App[None]) -> str:
    """What the terminal shows, line by line."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join(line.text[:width] for line in lines[:height])
