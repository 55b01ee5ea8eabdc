"""Search in the conversation: from hit to hit, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from ..conversation import Conversation
from .listing import Listing, Row


class FindScreen(Listing[None, Widget]):
    """Lists the places that hold every word; choosing one scrolls there."""

    title_text = "Search in this conversation"
    hint_text = "Enter goes there · Esc closes · earlier messages: scroll up and show them first"
    empty_text = "nothing found"

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation

    def rows(self, wanted: str) -> Iterable[Row[Widget]]:
        words = wanted.casefold().split()
        if not words:
            return
        for widget, text in self._conversation.texts():
            folded = text.casefold()
            if all(word in folded for word in words):
                at = folded.find(words[0])
                start = max(0, at - 40)
                yield Row(" ".join(text[start : start + 160].split()), widget)

    def chosen(self, row: Row[Widget]) -> None:
        self._conversation.show_place(row.value)
        self.dismiss(None)
