"""A yes or no that costs something; no is what Enter means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from .dialog import Dialog, plain


class ConfirmScreen(Dialog[bool]):
    title_text = "Are you sure?"
    hint_text = "y, n, or choose · Esc: no"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
    ]

    def __init__(self, question: str, hint: str = "", *, yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self._question, self._why, self._yes, self._no = question, hint, yes, no

    def body(self) -> Iterable[Widget]:
        yield plain(self._question)
        if self._why:
            yield plain(self._why, "dim")

    def foot(self) -> Iterable[Widget]:
        yield OptionList(Option(Content(self._no)), Option(Content(self._yes)), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index == 1)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
