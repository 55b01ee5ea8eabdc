"""One text file of any size, from its end."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from ...fix.doors import visible
from ..widgets.log_view import LogView
from .dialog import Head, plain


class PagerScreen(ModalScreen[None]):
    """Follows the file while it grows."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Head(visible(str(self._path)))
            yield self._log()
            yield plain("↑ ↓ PgUp PgDn · g top · G end · Esc closes", "dialog-hint")

    def _log(self) -> Widget:
        try:
            return LogView(self._path, follow=True)
        except OSError as error:
            return plain(f"cannot be read: {error.strerror}", "missing")

    def on_mount(self) -> None:
        for log in self.query(LogView):
            log.focus()

    def action_close(self) -> None:
        self.dismiss(None)
