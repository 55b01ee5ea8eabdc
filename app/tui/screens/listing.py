"""A dialog that is a list with a line to search in above it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ....sandbox.base.errors import WhimbrelError
from .dialog import Head

V = TypeVar("V")
T = TypeVar("T")


@dataclass(frozen=True)
class Row(Generic[V]):
    """What one line shows, and what it stands for."""

    text: str
    value: V
    dim: str = ""


class Listing(ModalScreen[T], Generic[T, V]):
    """Arrows move in the list while the search line has the focus; Enter chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("enter", "choose", "Choose", show=False, priority=True),
    ]
    title_text: ClassVar[str] = ""
    hint_text: ClassVar[str] = "Enter chooses · Esc closes"
    search_text: ClassVar[str] = "search"
    empty_text: ClassVar[str] = "nothing found"
    wide: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Row[V]] = ()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide" if self.wide else "dialog"):
            yield Head(self.title_text)
            yield Input(placeholder=self.search_text, id="search")
            yield OptionList(markup=False)
            yield Static(self.hint_text, markup=False, classes="dialog-hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self.fill(self.rows(""))

    def rows(self, wanted: str) -> Iterable[Row[V]]:
        """What the list shows for a search text."""
        raise NotImplementedError

    def chosen(self, row: Row[V]) -> None:
        """Enter or a click on a row."""
        raise NotImplementedError

    def fill(self, rows: Iterable[Row[V]], keep: int = 0) -> None:
        """Shows these rows."""
        self._rows = list(rows)
        options = self.query_one(OptionList)
        options.clear_options()
        for row in self._rows:
            text = Content(row.text)
            options.add_option(
                Option(Content.assemble(text, "  ", Content(row.dim).stylize("dim")) if row.dim else text)
            )
        if self._rows:
            options.highlighted = min(keep, len(self._rows) - 1)
        else:
            options.add_option(Option(Content(self.empty_text).stylize("dim"), disabled=True))

    def hint(self, text: str) -> None:
        """Another last line."""
        self.query_one(".dialog-hint", Static).update(text)

    @property
    def marked(self) -> Row[V] | None:
        """The row under the mark."""
        index = self.query_one(OptionList).highlighted
        return self._rows[index] if index is not None and index < len(self._rows) else None

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "search":
            event.stop()
            try:
                self.fill(self.rows(event.value.strip()))
            except (WhimbrelError, OSError, sqlite3.Error) as error:
                self.hint(error.one_line() if isinstance(error, WhimbrelError) else str(error))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self._rows):
            self.chosen(self._rows[event.option_index])

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        if self._rows:
            options.highlighted = max(0, min(len(self._rows) - 1, (options.highlighted or 0) + by))

    def action_choose(self) -> None:
        row = self.marked
        if row is not None:
            self.chosen(row)

    def action_close(self) -> None:
        self.dismiss(None)
