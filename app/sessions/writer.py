"""The single writer of a session: appends events, keeps blobs, closes with a status."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ...sandbox.base.errors import WhimbrelError
from ...sandbox.base.tokens import mask, mask_bytes, mask_json
from ..evidence import EvidenceRow
from ..version import __version__
from .database import is_full, read_blob
from .lock import SessionLock

EVENT_VERSION = 1
HANDLE_DIGITS = 16


class SessionWriter:
    """Appends to one session; an event survives the death of the process once ``append`` has returned.

    A store that stops working (full disk, damage) never stops the run: the problem
    is reported once through ``on_problem``, later events are counted and dropped,
    and blobs are kept in memory so that handles stay good until the end.
    """

    def __init__(
        self,
        session_id: str,
        connection: sqlite3.Connection,
        lock: SessionLock,
        *,
        title: str,
        repository: str,
        model: str,
        on_problem: Callable[[str], None],
        last_seq: int = 0,
    ) -> None:
        self.id = session_id
        self.dropped = 0
        """Events that could not be stored."""
        self._connection = connection
        self._file_lock = lock
        self._head = (mask(title), repository, model)
        self._on_problem = on_problem
        self._seq = last_seq
        self._row_written = last_seq > 0
        self._broken = False
        self._run_status = ""
        self._closed = False
        self._spill: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def append(self, kind: str, payload: Any, *, parent_seq: int | None = None) -> int:
        """Stores an event and returns its sequence number.

        ``payload`` is anything ``json.dumps`` takes. ``parent_seq`` is the event this
        one follows (default: the one before it; None for the first). After ``close``
        nothing is stored any more.
        """
        # ASCII escapes carry newlines, control characters and lone surrogates through SQLite unharmed.
        if kind == "run_finished":
            self._run_status = payload["status"]
        text = json.dumps(mask_json(payload), ensure_ascii=True, separators=(",", ":"))
        with self._lock:
            if self._closed:
                self.dropped += 1
                return self._seq
            self._seq += 1
            if parent_seq is None and self._seq > 1:
                parent_seq = self._seq - 1
            values = (self.id, self._seq, parent_seq, kind, EVENT_VERSION, time.time(), text)
            if not self._write(lambda: self._insert_event(values)):
                self.dropped += 1
            return self._seq

    def payload(self, seq: int) -> Any:
        """The payload of an event of this session, as stored; raises KeyError."""
        with self._lock:
            try:
                row = self._connection.execute(
                    "SELECT payload FROM events WHERE session_id = ? AND seq = ?", (self.id, seq)
                ).fetchone()
            except sqlite3.Error as error:
                raise KeyError(seq) from error
        if row is None:
            raise KeyError(seq)
        return json.loads(row[0])

    def evidence(self, row: EvidenceRow) -> None:
        """A listener for the evidence ledger."""
        self.append("evidence", row.to_json())

    def keep(self, data: bytes, media: str) -> str:
        """Stores a complete output and returns its handle; the same bytes give the same handle.

        The model reads it back as ``artifact:HANDLE``.
        """
        clean = mask_bytes(data)
        digest = hashlib.sha256(clean).hexdigest()
        handle = digest[:HANDLE_DIGITS]
        values = (digest, media, len(clean), zlib.compress(clean, 6 if len(clean) < 1 << 20 else 1))
        with self._lock:
            if not self._write(
                lambda: self._connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)", values)
            ):
                self._spill[handle] = values[3]
        return handle

    def fetch(self, handle: str) -> bytes:
        """The bytes behind a handle; raises KeyError."""
        if handle in self._spill:
            return zlib.decompress(self._spill[handle])
        with self._lock:
            try:
                return read_blob(self._connection, handle)[0]
            except sqlite3.Error as error:
                raise KeyError(handle) from error

    def close(self, status: str) -> None:
        """Records how the session ended and gives it free; idempotent."""
        with self._lock:
            if self._row_written and not self._closed:
                self._write(
                    lambda: self._connection.execute(
                        "UPDATE sessions SET status = ?, updated = ? WHERE id = ?",
                        (status, time.time(), self.id),
                    )
                )
            self._closed = True
            self._file_lock.release()

    def __enter__(self) -> SessionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close(self._run_status or "ended")
        elif isinstance(error, WhimbrelError):
            self.close(error.status)
        elif isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            self.close(self._run_status or "cancelled")
        else:
            self.close("internal_error")

    def _insert_event(self, values: tuple[Any, ...]) -> None:
        now = values[5]
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._row_written:
                self._connection.execute(
                    "UPDATE sessions SET updated = ?, status = 'running' WHERE id = ?", (now, self.id)
                )
            else:
                self._connection.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?, 'running', ?, ?, ?, ?)",
                    (self.id, now, now, *self._head, __version__),
                )
            self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._row_written = True

    def _write(self, action: Callable[[], object]) -> bool:
        if self._broken:
            return False
        try:
            action()
        except sqlite3.Error as error:
            self._broken = True
            why = "the disk is full" if is_full(error) else str(error)
            self._on_problem(
                f"the session can no longer be recorded: {why}; the run goes on, `whimbrel session show`"
                f" will end at event {self._seq - 1 if self._row_written else 0}"
            )
            return False
        return True
