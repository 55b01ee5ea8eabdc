"""Search in the conversation: from hit to hit, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from ..conversation import Conversation
from .listing import Listing, Row


class FindScreen(Listing[int | None, int]):
    """Lists the places that hold the phrase, then those with every word; choosing one scrolls there."""

    title_text = "Search in this conversation"
    hint_text = "Enter goes there · Esc closes"
    empty_text = "nothing found"

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation

    def rows(self, wanted: str) -> Iterable[Row[int]]:
        phrase = wanted.casefold()
        words = phrase.split()
        if not words:
            return
        loose: list[Row[int]] = []
        for index, text in self._conversation.texts():
            folded = text.casefold()
            if all(word in folded for word in words):
                start = max(0, folded.find(phrase if phrase in folded else words[0]) - 40)
                row = Row(" ".join(text[start : start + 160].split()), index)
                if phrase in folded:
                    yield row
                else:
                    loose.append(row)
        yield from loose

    def chosen(self, row: Row[int]) -> None:
        self.dismiss(row.value)
