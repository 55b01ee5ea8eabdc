"""The frame of every dialog: a title, a body that scrolls, options that stay in sight, and its keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """Escape closes it with None. Subclasses give ``body`` and, below it, ``foot``."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]
    title_text: ClassVar[str] = ""
    hint_text: ClassVar[str] = "Esc closes"
    wide: ClassVar[bool] = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide" if self.wide else "dialog"):
            yield Static(self.title_text, markup=False, classes="dialog-title")
            with VerticalScroll(classes="dialog-body"):
                yield from self.body()
            yield from self.foot()
            yield Static(self.hint_text, markup=False, classes="dialog-hint")

    def body(self) -> Iterable[Widget]:
        """What may be long."""
        return ()

    def foot(self) -> Iterable[Widget]:
        """What must be seen."""
        return ()

    def hint(self, text: str) -> None:
        """Another last line."""
        self.query_one(".dialog-hint", Static).update(text)

    def action_close(self) -> None:
        self.dismiss(None)


def plain(text: str, classes: str = "") -> Static:
    """Text as it is: nothing in it is markup."""
    return Static(text, markup=False, classes=classes)
