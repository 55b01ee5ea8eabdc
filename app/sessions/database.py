"""The SQLite file behind the session store: where it lies, its schema, and how a broken one is survived."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Generator
from pathlib import Path

from ...sandbox.base.errors import ConfigError
from .migration import ADDED_IN_2, add_text_index, from_1_to_2

SCHEMA_VERSION = 2

_CHECKED_BYTES = 64 << 20
"""Files up to this size are checked at every start (a few milliseconds); larger ones when they are read."""

_SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    status TEXT NOT NULL,
    title TEXT NOT NULL,
    repository TEXT NOT NULL,
    model TEXT NOT NULL,
    product_version TEXT NOT NULL
);
CREATE TABLE events (
    session_id TEXT NOT NULL REFERENCES sessions(id),
    seq INTEGER NOT NULL,
    parent_seq INTEGER,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    time REAL NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);
CREATE TABLE blobs (
    sha256 TEXT PRIMARY KEY,
    media TEXT NOT NULL,
    size INTEGER NOT NULL,
    deflated BLOB NOT NULL
);
"""


def open_database(directory: Path | None, notice: Callable[[str], None]) -> sqlite3.Connection:
    """Opens (making it when needed) the store below ``directory`` (None: in memory); never blocks a start.

    A file that is not a usable database is moved aside and reported through
    ``notice``. A place that cannot be written gives a database in memory, reported too.

    Raises:
        ConfigError: the store was written by a newer version; it is left alone.
    """
    if directory is None:
        return _connect(None)
    path = directory / "sessions.db"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _exclusive(directory / "sessions.lock"):
            try:
                return _connect(path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) and not _is_corrupt(error):
                    raise
                aside = _move_aside(path)
                notice(
                    f"the session store was unreadable ({error}) and was moved to {aside}; a new one starts"
                )
                return _connect(path)
    except (OSError, sqlite3.OperationalError) as error:
        notice(f"sessions cannot be stored in {directory} ({error}); this run is kept in memory only")
        return _connect(None)


@contextlib.contextmanager
def readable(directory: Path) -> Generator[None]:
    """Turns damage met while reading into one line: ConfigError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise ConfigError(
            f"the session store in {directory} cannot be read: {error}",
            hint="move sessions.db away to start a new one",
        ) from error


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk (or the page limit of the database) is exhausted."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or "full" in str(error)


def read_blob(connection: sqlite3.Connection, handle: str) -> tuple[bytes, str]:
    """Looks a handle (the first 12 or more hex digits of the SHA-256) up; raises KeyError."""
    digits = handle.removeprefix("artifact:")
    if len(digits) < 12 or not all(character in "0123456789abcdef" for character in digits):
        raise KeyError(handle)
    row = connection.execute(
        "SELECT deflated, media FROM blobs WHERE sha256 >= ? AND sha256 < ? LIMIT 1", (digits, digits + "g")
    ).fetchone()
    if row is None:
        raise KeyError(handle)
    return zlib.decompress(row[0]), row[1]


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All of the block or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def release_blob(connection: sqlite3.Connection, session_id: str, handle: str) -> None:
    """Takes a session's claim on a blob back, and the blob where nobody else has one."""
    with transaction(connection):
        row = connection.execute(
            "SELECT sha256 FROM blobs WHERE sha256 >= ? AND sha256 < ? LIMIT 1", (handle, handle + "g")
        ).fetchone()
        if row is None:
            return
        connection.execute("DELETE FROM blob_refs WHERE session_id = ? AND sha256 = ?", (session_id, *row))
        connection.execute(
            "DELETE FROM blobs WHERE sha256 = ? AND sha256 NOT IN (SELECT sha256 FROM blob_refs)", row
        )


def _is_corrupt(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _connect(path: Path | None) -> sqlite3.Connection:
    # Tools may keep blobs from worker threads; the writer holds its own lock around each use.
    connection = sqlite3.connect(
        ":memory:" if path is None else path, timeout=15, isolation_level=None, check_same_thread=False
    )
    try:
        if path is not None:
            path.chmod(0o600)
            connection.execute("PRAGMA journal_mode = WAL")
        # WAL with NORMAL loses nothing when a process dies at any moment; only a
        # power cut can cost the last transactions, and even that never corrupts.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"the session store {path} was written by a newer whimbrel (format {version})",
                hint="update whimbrel, or point WHIMBREL_STATE_DIR at another directory",
            )
        if version == 0:
            add = f"{_SCHEMA}{ADDED_IN_2}PRAGMA user_version = {SCHEMA_VERSION};"
            connection.executescript(f"BEGIN;{add}COMMIT;")
            add_text_index(connection)
        if path is not None and path.stat().st_size <= _CHECKED_BYTES:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict.splitlines()[-1])
        if version == 1:
            from_1_to_2(connection)
        for table in ("sessions", "events", "blobs", "blob_refs", "forks", "mirror_queue"):
            try:
                connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                raise sqlite3.DatabaseError(str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _move_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    for number in range(1, 1000):
        if not aside.exists():
            break
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


@contextlib.contextmanager
def _exclusive(lock: Path) -> Generator[None]:
    """Two starting processes must not both move a broken file aside."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
