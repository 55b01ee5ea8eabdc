"""Search in the conversation: from hit to hit, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from ..conversation import Conversation
from .listing import Listing, Row


class FindScreen(Listing[int | None, int]):
    """Lists the places that hold every word; choosing one scrolls there."""

    title_text = "Search in this conversation"
    hint_text = "Enter goes there · Esc closes"
    empty_text = "nothing found"

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation

    def rows(self, wanted: str) -> Iterable[Row[int]]:
        words = wanted.casefold().split()
        if not words:
            return
        for index, text in self._conversation.texts():
            folded = text.casefold()
            if all(word in folded for word in words):
                at = folded.find(words[0])
                start = max(0, at - 40)
                yield Row(" ".join(text[start : start + 160].split()), index)

    def chosen(self, row: Row[int]) -> None:
        self.dismiss(row.value)
