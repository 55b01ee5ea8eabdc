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
from .database import is_full, read_blob, release_blob, transaction
from .lock import SessionLock
from .migration import add_reference, add_text, has_text_index

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
        self._indexed = has_text_index(connection)
        self._broken = False
        self._run_status = ""
        self._closed = False
        self._spill: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def continue_after(self, seq: int) -> None:
        """The store holds this session already, with events up to ``seq`` (a fork)."""
        self._seq, self._row_written = seq, True

    def append(self, kind: str, payload: Any, *, parent_seq: int | None = None) -> int:
        """Stores an event and returns its sequence number.

        ``payload`` is anything ``json.dumps`` takes. ``parent_seq`` is the event this
        one follows (default: the one before it; None for the first). After ``close``
        nothing is stored any more.
        """
        # ASCII escapes carry newlines, control characters and lone surrogates through SQLite unharmed.
        if kind == "run_finished":
            self._run_status = payload["status"]
        clean = mask_json(payload)
        text = json.dumps(clean, ensure_ascii=True, separators=(",", ":"))
        with self._lock:
            if self._closed:
                self.dropped += 1
                return self._seq
            self._seq += 1
            if parent_seq is None and self._seq > 1:
                parent_seq = self._seq - 1
            values = (self.id, self._seq, parent_seq, kind, EVENT_VERSION, time.time(), text)
            if not self._write(lambda: self._insert_event(values, clean)):
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
        return self._keep(mask_bytes(data), media)[0]

    def keep_exact(self, data: bytes, media: str) -> tuple[str, int] | None:
        """``(handle, bytes stored)`` of data that is of use only as it is; None when it holds a secret."""
        return self._keep(data, media) if mask_bytes(data) == data else None

    def drop(self, handle: str) -> None:
        """This session needs a blob no more; it is removed unless another session uses it."""
        with self._lock:
            self._spill.pop(handle, None)
            self._write(lambda: release_blob(self._connection, self.id, handle))

    def _keep(self, data: bytes, media: str) -> tuple[str, int]:
        digest = hashlib.sha256(data).hexdigest()
        handle = digest[:HANDLE_DIGITS]
        deflated = zlib.compress(data, 6 if len(data) < 1 << 20 else 1)
        with self._lock:
            if not self._write(lambda: self._insert_blob((digest, media, len(data), deflated))):
                self._spill[handle] = deflated
        return handle, len(deflated)

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

    def _insert_blob(self, values: tuple[Any, ...]) -> None:
        with transaction(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)", values)
            add_reference(self._connection, self.id, values[0])

    def _insert_event(self, values: tuple[Any, ...], payload: Any) -> None:
        now = values[5]
        with transaction(self._connection):
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
            if self._indexed and values[3] == "message":
                add_text(self._connection, self.id, values[1], payload)
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
