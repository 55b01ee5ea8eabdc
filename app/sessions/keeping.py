"""What is done to whole sessions: fork, rename, delete, prune; and how much room each takes."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable

from ...sandbox.base.errors import UsageError
from ...sandbox.base.tokens import mask
from .database import readable, transaction
from .lock import SessionLock
from .migration import has_text_index
from .store import SessionInfo, SessionStore
from .writer import SessionWriter

_NEW = "('message', 'turn_started', 'run_started', 'rewound', 'forked', 'imported')"
"""Kinds of events that begin something."""
_UNUSED = "DELETE FROM blobs WHERE sha256 NOT IN (SELECT sha256 FROM blob_refs)"


def fork(
    store: SessionStore,
    prefix: str,
    seq: int | None = None,
    *,
    on_problem: Callable[[str], None] = lambda _: None,
) -> SessionWriter:
    """A new session with a copy of another's events up to ``seq`` (None: all); blobs are shared.

    The copy stands alone: either can be deleted, exported or rewound without the other.

    Raises:
        UsageError: no such session or message.
    """
    parent = store.find(prefix)
    last = check_seq(store, parent, seq)
    writer = store.create(
        title=parent.title, repository=parent.repository, model=parent.model, on_problem=on_problem
    )
    connection = store.connection
    with readable(store.directory), transaction(connection):
        now = time.time()
        connection.execute(
            "INSERT INTO sessions SELECT ?, ?, ?, 'running', title, repository, model, product_version"
            " FROM sessions WHERE id = ?",
            (writer.id, now, now, parent.id),
        )
        connection.execute(
            "INSERT INTO events SELECT ?, seq, parent_seq, kind, version, time, payload FROM events"
            " WHERE session_id = ? AND seq <= ?",
            (writer.id, parent.id, last),
        )
        connection.execute(
            "INSERT INTO blob_refs SELECT ?, sha256 FROM blob_refs WHERE session_id = ?",
            (writer.id, parent.id),
        )
        connection.execute("INSERT INTO forks VALUES (?, ?, ?)", (writer.id, parent.id, last))
        if has_text_index(connection):
            connection.execute(
                "INSERT INTO message_text SELECT text, ?, seq FROM message_text"
                " WHERE session_id = ? AND seq <= ?",
                (writer.id, parent.id, last),
            )
    writer.continue_after(last)
    writer.append("forked", {"from": parent.id, "at": last})
    return writer


def check_seq(store: SessionStore, info: SessionInfo, seq: int | None) -> int:
    """Where the session stands after message ``seq`` (None: its end): up to the next thing said.

    What belongs to a message (the files it led to, evidence) is stored behind it.

    Raises:
        UsageError: the session has no such event.
    """
    if seq is None:
        return info.events
    if not 1 <= seq <= info.events:
        raise UsageError(
            f"session {info.id} has no message {seq}: they go from 1 to {info.events}",
            hint=f"`whimbrel session turns {info.id}` lists them",
        )
    with readable(store.directory):
        (following,) = store.connection.execute(
            f"SELECT min(seq) FROM events WHERE session_id = ? AND seq > ? AND kind IN {_NEW}", (info.id, seq)
        ).fetchone()
    return info.events if following is None else int(following) - 1


def rename(store: SessionStore, prefix: str, title: str) -> SessionInfo:
    """Gives a session another title."""
    info = store.find(prefix)
    clean = mask(" ".join(title.split()))[:200]
    if not clean:
        raise UsageError("a title needs at least one letter")
    with readable(store.directory):
        store.connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (clean, info.id))
    return store.find(info.id)


def delete(store: SessionStore, prefix: str) -> SessionInfo:
    """Removes a session and every blob only it used.

    Raises:
        UsageError: no such session, or a living process writes it.
    """
    info = store.find(prefix)
    lock = SessionLock(store.directory, info.id)
    try:
        with readable(store.directory), transaction(store.connection):
            _remove(store.connection, info.id)
    finally:
        lock.release()
    return info


def room(store: SessionStore, session_id: str) -> int:
    """Bytes a session takes in the store, blobs it shares with others included."""
    with readable(store.directory):
        (events,) = store.connection.execute(
            "SELECT coalesce(sum(length(payload)), 0) FROM events WHERE session_id = ?", (session_id,)
        ).fetchone()
        (blobs,) = store.connection.execute(
            "SELECT coalesce(sum(length(deflated)), 0) FROM blobs"
            " WHERE sha256 IN (SELECT sha256 FROM blob_refs WHERE session_id = ?)",
            (session_id,),
        ).fetchone()
    return int(events) + int(blobs)


def prune(
    store: SessionStore,
    *,
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
) -> list[tuple[SessionInfo, int]]:
    """Removes sessions last used longer ago than a limit, then the longest unused ones until all fit.

    Sessions that are being written stay. Returns what was (or would be) removed, with its size.
    """
    infos = sorted(store.sessions(), key=lambda info: info.updated)
    sizes = {info.id: room(store, info.id) for info in infos}
    total, now = sum(sizes.values()), time.time()
    gone: list[tuple[SessionInfo, int]] = []
    for info in infos:
        old = older_than_s is not None and now - info.updated > older_than_s
        if not old and (max_bytes is None or total <= max_bytes):
            continue
        if info.status == "running":
            continue
        if not dry_run:
            try:
                delete(store, info.id)
            except UsageError:
                continue  # it was taken up again just now
        total -= sizes[info.id]
        gone.append((info, sizes[info.id]))
    if gone and not dry_run:
        # Gives the room back to the disk; while others read or write the file it stays for new sessions.
        with contextlib.suppress(sqlite3.Error):
            store.connection.execute("VACUUM")
    return gone


def _remove(connection: sqlite3.Connection, session_id: str) -> None:
    for table in ("events", "blob_refs", "forks", "mirror_queue"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    if has_text_index(connection):
        connection.execute("DELETE FROM message_text WHERE session_id = ?", (session_id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    connection.execute(_UNUSED)
