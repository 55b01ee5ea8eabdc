"""Recorded sessions: resume, fork, search in what was said, watch one that another process runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType

from ....sandbox.base.errors import WhimbrelError
from ...sessions import SessionInfo, SessionStore
from ...sessions.keeping import fork
from .listing import Listing, Row

MANY = 300


@dataclass(frozen=True)
class ChosenSession:
    session_id: str
    how: str
    """``resume`` or ``watch``."""


class SessionsScreen(Listing[ChosenSession | None, SessionInfo]):
    """Those of this repository first; what is typed is looked for in titles and in all that was said."""

    title_text = "Sessions"
    hint_text = "Enter resumes (watches a running one) · Ctrl-K forks · Ctrl-T all repositories · Esc closes"
    search_text = "search in everything that was said"
    empty_text = "no sessions"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+k", "fork", "Fork", priority=True),
        Binding("ctrl+t", "everywhere", "All repositories", priority=True),
    ]

    def __init__(self, repository: str) -> None:
        super().__init__()
        self._repository = repository
        self._everywhere = False
        self._store = SessionStore.open()
        self._all = self._store.sessions(MANY)

    def on_unmount(self) -> None:
        self._store.close()

    def rows(self, wanted: str) -> Iterable[Row[SessionInfo]]:
        excerpts: dict[str, str] = {}
        if wanted:
            for hit in self._store.search(wanted, limit=200):
                excerpts.setdefault(hit.session_id, hit.excerpt if hit.seq else "")
        for info in self._all:
            here = info.repository == self._repository
            if (wanted and info.id not in excerpts) or not (here or self._everywhere):
                continue
            when = time.strftime("%d %b %H:%M", time.localtime(info.updated))
            where = "" if here else f"{info.repository}  "
            extra = excerpts.get(info.id) or info.model
            yield Row(f"{when}  {info.status:<12.12} {info.title[:80]}", info, f"{where}{extra}"[:160])

    def chosen(self, row: Row[SessionInfo]) -> None:
        info = row.value
        if info.status == "running":
            self.dismiss(ChosenSession(info.id, "watch"))
        elif info.repository != self._repository:
            self.hint(f"it belongs to {info.repository}: start whimbrel there")
        else:
            self.dismiss(ChosenSession(info.id, "resume"))

    def action_fork(self) -> None:
        row = self.marked
        if row is None:
            return
        try:
            with fork(self._store, row.value.id, None) as writer:
                new_id = writer.id
                writer.close("forked")
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        self.dismiss(ChosenSession(new_id, "resume"))

    def action_everywhere(self) -> None:
        self._everywhere = not self._everywhere
        self.fill(self.rows(""))
