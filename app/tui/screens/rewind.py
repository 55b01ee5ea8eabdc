"""Back to an earlier turn: what was said, the files, or both. Nothing is deleted by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from ....sandbox.base.errors import WhimbrelError
from ...sessions import SessionStore
from ...sessions.rewinding import What, rewind, turns
from ..transcript import person_words
from .listing import Listing, Row


@dataclass(frozen=True)
class Rewound:
    line: str
    """What was done, for the conversation."""
    prompt: str
    """The words of the turn that was taken back, to be sent again in another way."""


@dataclass(frozen=True)
class _Turn:
    before: int
    """The message the session goes back to."""
    words: str


class RewindScreen(Listing[Rewound | None, _Turn]):
    """Each line is something the person said; choosing it goes back to just before it."""

    title_text = "Go back to before"
    hint_text = "Enter: words and files · Ctrl-W: only the words · Ctrl-O: only the files · Esc closes"
    search_text = "search in what you said"
    empty_text = "nothing was said before"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+w", "back('chat')", "Words", priority=True),
        Binding("ctrl+o", "back('files')", "Files", priority=True),
    ]

    def __init__(self, session_id: str) -> None:
        super().__init__()
        self._session_id = session_id
        self._store = SessionStore.open()
        self._turns = list(self._said())

    def on_unmount(self) -> None:
        self._store.close()

    def _said(self) -> Iterable[_Turn]:
        payloads: dict[int, Any] = {e.seq: e.payload for e in self._store.events(self._session_id)}
        before = 0
        for line in turns(self._store, self._session_id):
            if line.kind == "user" and line.current:
                parts = payloads[line.seq].get("parts") or []
                words = "\n".join(str(part.get("text", "")) for part in parts if part.get("kind") == "text")
                yield _Turn(before, person_words(words))
            if line.kind in ("user", "assistant", "files"):
                before = line.seq

    def rows(self, wanted: str) -> Iterable[Row[_Turn]]:
        for turn in reversed(self._turns):
            if wanted.casefold() in turn.words.casefold():
                yield Row(" ".join(turn.words.split())[:160] or "(no text)", turn)

    def chosen(self, row: Row[_Turn]) -> None:
        self._go(row.value, "both")

    def action_back(self, what: str) -> None:
        row = self.marked
        if row is not None:
            self._go(row.value, "chat" if what == "chat" else "files")

    def _go(self, turn: _Turn, what: What) -> None:
        if turn.before == 0:
            self.hint("that is the beginning: /new starts another conversation")
            return
        try:
            line = rewind(self._store, self._session_id, turn.before, what)
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        self.dismiss(Rewound(line, turn.words if what != "files" else ""))
