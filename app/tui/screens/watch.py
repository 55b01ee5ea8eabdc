"""A session that another process runs, as it grows: read only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Static

from ....sandbox.base.errors import WhimbrelError
from ...sessions import SessionEvent, SessionStore
from ..conversation import Conversation, Past
from ..transcript import follow

_LOOK_S = 0.5


class WatchScreen(Screen[None]):
    """Follows until it is closed; the session itself is never written."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Close"),
        Binding("alt+up,ctrl+up", "jump(-1)", "Turn before"),
        Binding("alt+down,ctrl+down", "jump(1)", "Turn after"),
    ]

    def __init__(self, session_id: str) -> None:
        super().__init__()
        self._wanted = session_id
        self._store = SessionStore.open()
        self._session_id = ""
        self._last = 0
        self.conversation = Conversation()
        self._head = Static("", markup=False, classes="watch-head")

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.conversation
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        try:
            info = self._store.find(self._wanted)
        except WhimbrelError as error:
            self.conversation.error(error.message, error.hint)
            return
        self._session_id = info.id
        past = Past()
        follow(self._fresh(), past)
        past.end_step()
        self.conversation.show_past(past)
        self.set_interval(_LOOK_S, self._look)
        self._look()

    def on_unmount(self) -> None:
        self._store.close()

    def _look(self) -> None:
        try:
            info = self._store.find(self._session_id)
            follow(self._fresh(), self.conversation)
        except (WhimbrelError, sqlite3.Error) as error:
            text = error.message if isinstance(error, WhimbrelError) else str(error)
            self._head.update(f"{self._session_id} cannot be followed: {text}")
            return
        self._head.update(f"watching {info.id} · {info.status} · {info.model} · {info.title}")

    def _fresh(self) -> Iterator[SessionEvent]:
        for event in self._store.events(self._session_id, after=self._last):
            self._last = event.seq
            yield event

    def action_close(self) -> None:
        self.dismiss(None)

    async def action_jump(self, by: int) -> None:
        await self.conversation.jump_turn(by)
