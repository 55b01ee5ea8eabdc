"""The frame of every dialog: a title, a body that scrolls, options that stay in sight, and its keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

T = TypeVar("T")


class Head(Horizontal):
    """The title with a mark that closes by mouse what Escape closes by key."""

    def __init__(self, title: str) -> None:
        super().__init__(classes="dialog-head")
        self._title = title

    def compose(self) -> ComposeResult:
        yield Static(self._title, markup=False, classes="dialog-title")
        yield Push("✕ close", "escape")


class Push(Static):
    """A word to click, which does what a key of its screen does."""

    def __init__(self, text: str, key: str) -> None:
        super().__init__(text, markup=False, classes="push")
        self._key = key

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.app.simulate_key(self._key)


class Dialog(ModalScreen[T]):
    """Escape closes it with None. Subclasses give ``body`` and, below it, ``foot``."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]
    title_text: ClassVar[str] = ""
    hint_text: ClassVar[str] = "Esc closes"
    wide: ClassVar[bool] = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide" if self.wide else "dialog"):
            yield Head(self.title_text)
            with VerticalScroll(classes="dialog-body"):
                yield from self.body()
            yield from self.foot()
            yield Static(self.hint_text, markup=False, classes="dialog-hint")

    AUTO_FOCUS = ""

    def on_mount(self) -> None:
        """The options have the keys; where there are none, the body has them and scrolls."""
        foot = [each for each in self.query("OptionList, Input") if each.focusable]
        (foot[0] if foot else self.query_one(".dialog-body")).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """What is below the body is always seen: the body has the rows that are left, and scrolls."""
        if self.wide:
            return
        body = self.query_one(".dialog-body")
        room = self.size.height - 4
        for each in self.query("OptionList"):
            each.styles.max_height = max(3, room // 2)
        others = [child for child in self.query_one(".dialog").children if child is not body]
        taken = sum(child.outer_size.height + child.styles.margin.height for child in others if child.display)
        body.styles.max_height = max(2, room - taken)

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
