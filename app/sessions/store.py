"""The session store: who ran what, when, and every event of it, readable while it happens."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, UsageError
from ..paths import state_dir
from .database import open_database, read_blob, readable
from .lock import SessionLock, is_locked
from .migration import has_text_index
from .searching import Hit, search
from .writer import SessionWriter


@dataclass(frozen=True)
class SessionInfo:
    """One line of ``whimbrel session list``."""

    id: str
    created: float
    """Seconds since the epoch."""
    updated: float
    status: str
    """running, interrupted (its process is gone), or the final status of the run."""
    title: str
    repository: str
    model: str
    product_version: str
    events: int


@dataclass(frozen=True)
class SessionEvent:
    """One stored event; ``seq`` counts from 1 without gaps."""

    session_id: str
    seq: int
    parent_seq: int | None
    kind: str
    version: int
    time: float
    payload: Any

    def to_json(self) -> dict[str, Any]:
        return {
            "session": self.session_id,
            "seq": self.seq,
            "parent_seq": self.parent_seq,
            "kind": self.kind,
            "version": self.version,
            "time": self.time,
            "payload": self.payload,
        }


class SessionStore:
    """All sessions of one person on one machine.

    Several processes may use the store at once: each session has one writer,
    everybody may read.
    """

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.connection = connection
        """For the modules of this package."""

    @classmethod
    def open(
        cls, directory: Path | None = None, *, notice: Callable[[str], None] = lambda _: None
    ) -> SessionStore:
        """Opens the store below ``directory`` (default: the state directory); see ``open_database``."""
        try:
            place = (directory or state_dir()) / "sessions"
        except ConfigError as error:
            notice(f"{error.message}; this run is kept in memory only")
            return cls(Path(os.devnull), open_database(None, notice))
        return cls(place, open_database(place, notice))

    @staticmethod
    def new_id() -> str:
        """An id that sorts by time and no other session has."""
        return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"

    def create(
        self,
        *,
        title: str,
        repository: str,
        model: str,
        on_problem: Callable[[str], None] = lambda _: None,
        session_id: str = "",
    ) -> SessionWriter:
        """A new session and its only writer. Nothing is stored before the first event.

        ``session_id`` is one that ``new_id`` gave before; without it there is a new one.
        """
        session_id = session_id or self.new_id()
        return SessionWriter(
            session_id,
            self.connection,
            SessionLock(self.directory, session_id),
            title=" ".join(title.split())[:200],
            repository=repository,
            model=model,
            on_problem=on_problem,
        )

    def reopen(self, prefix: str, *, on_problem: Callable[[str], None] = lambda _: None) -> SessionWriter:
        """The writer of an existing session, continuing after its last event.

        Raises:
            UsageError: no such session, or another process is writing it.
        """
        info = self.find(prefix)
        lock = SessionLock(self.directory, info.id)
        (last,) = self.connection.execute(
            "SELECT coalesce(max(seq), 0) FROM events WHERE session_id = ?", (info.id,)
        ).fetchone()
        return SessionWriter(
            info.id,
            self.connection,
            lock,
            title=info.title,
            repository=info.repository,
            model=info.model,
            on_problem=on_problem,
            last_seq=last,
        )

    def sessions(self, limit: int | None = None) -> list[SessionInfo]:
        """Newest first."""
        with readable(self.directory):
            rows = self.connection.execute(
                "SELECT id, created, updated, status, title, repository, model, product_version,"
                " (SELECT count(*) FROM events WHERE session_id = id) FROM sessions"
                " ORDER BY created DESC, id DESC LIMIT ?",
                (-1 if limit is None else limit,),
            ).fetchall()
        return [self._info(row) for row in rows]

    def find(self, prefix: str) -> SessionInfo:
        """The session whose id starts with ``prefix``, or ends with it (the random tail).

        Raises:
            UsageError: none or several match.
        """
        wanted = prefix.strip()
        matches = [
            info
            for info in self.sessions()
            if wanted and (info.id.startswith(wanted) or info.id.endswith(f"-{wanted}"))
        ]
        exact = [info for info in matches if info.id == wanted]
        if len(exact or matches) == 1:
            return (exact or matches)[0]
        if not matches:
            raise UsageError(
                f"no session has an id starting with {wanted!r}",
                hint="`whimbrel session list` shows the ids",
            )
        some = ", ".join(info.id for info in matches[:4])
        raise UsageError(
            f"{len(matches)} sessions have an id starting with {wanted!r}", hint=f"such as {some}"
        )

    def events(self, session_id: str, *, after: int = 0) -> Iterator[SessionEvent]:
        """Events with ``seq > after`` in order; call again with the last seq to follow a live session."""
        with readable(self.directory):
            rows = self.connection.execute(
                "SELECT session_id, seq, parent_seq, kind, version, time, payload FROM events"
                " WHERE session_id = ? AND seq > ? ORDER BY seq",
                (session_id, after),
            )
            for *head, payload in rows:
                yield SessionEvent(*head, payload=_decode(payload))

    def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        """Messages and titles that hold every word of ``query``."""
        with readable(self.directory):
            indexed = has_text_index(self.connection)
            return search(self.connection, query, indexed=indexed, limit=limit)

    def latest(self, repository: str) -> SessionInfo:
        """The session of a repository that was written last; imported ones only once they were resumed.

        Raises:
            UsageError: there is none.
        """
        with readable(self.directory):
            row = self.connection.execute(
                "SELECT id FROM sessions WHERE repository = ? AND coalesce((SELECT kind FROM events"
                " WHERE session_id = id ORDER BY seq DESC LIMIT 1), '') != 'imported'"
                " ORDER BY updated DESC, id DESC LIMIT 1",
                (repository,),
            ).fetchone()
        if row is None:
            raise UsageError(f"there is no session of {repository} yet", hint="leave --continue out")
        return self.find(row[0])

    def blob(self, handle: str) -> tuple[bytes, str]:
        """``(data, media type)`` of a stored blob.

        Raises:
            KeyError: no such blob.
        """
        return read_blob(self.connection, handle)

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()

    def _info(self, row: tuple[Any, ...]) -> SessionInfo:
        info = SessionInfo(*row)
        if info.status == "running" and not is_locked(self.directory, info.id):
            return replace(info, status="interrupted")
        return info


def _decode(payload: str) -> Any:
    try:
        return json.loads(payload)
    except ValueError:
        # Only damage on disk can do this; the other events are still worth showing.
        return {"unreadable": payload}
