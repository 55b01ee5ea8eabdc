"""The complete messages of a run, of which only those in use stay in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from ...engine.chat import Message


class MessageLog(Sequence[Message]):
    """Append-only. A message that was stored can be released; reading it later fetches it from the store."""

    def __init__(self, fetch: Callable[[int], Any]) -> None:
        """``fetch``: the stored payload of an event by its number; KeyError when it is not there."""
        self._fetch = fetch
        self._entries: list[Message | int] = []
        self._stored: list[int | None] = []

    def add(self, message: Message, stored_as: int | None) -> None:
        """``stored_as``: number of the event that holds it, None when nothing does."""
        self._entries.append(message)
        self._stored.append(stored_as)

    def release(self, indexes: Iterable[int]) -> None:
        """Drops messages from memory, as far as they can be had back."""
        for index in indexes:
            stored = self._stored[index]
            if stored is not None:
                self._entries[index] = stored

    @property
    def in_memory(self) -> int:
        return sum(isinstance(entry, Message) for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        entry = self._entries[index]
        return entry if isinstance(entry, Message) else Message.model_validate(self._fetch(entry))
