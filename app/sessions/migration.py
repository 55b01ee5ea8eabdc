"""Bringing stores of older formats up to date, and what format 2 added."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from typing import Any

from .searching import searchable

ADDED_IN_2 = """
CREATE TABLE blob_refs (
    session_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (session_id, sha256)
) WITHOUT ROWID;
CREATE TABLE forks (
    session_id TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    parent_seq INTEGER NOT NULL
);
CREATE TABLE mirror_queue (
    session_id TEXT PRIMARY KEY,
    since REAL NOT NULL,
    attempts INTEGER NOT NULL,
    problem TEXT NOT NULL
);
"""
_TEXT_INDEX = "CREATE VIRTUAL TABLE message_text USING fts5(text, session_id UNINDEXED, seq UNINDEXED)"
_HANDLE = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")


def add_text_index(connection: sqlite3.Connection) -> None:
    """An SQLite without full-text search leaves it out; then searching reads the messages themselves."""
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute(_TEXT_INDEX)


def has_text_index(connection: sqlite3.Connection) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'message_text'").fetchone()
    return row is not None


def from_1_to_2(connection: sqlite3.Connection) -> None:
    """Adds which session uses which blob, forks, the queue of copies, and the text index.

    The tables of format 1 stay as they are, so a writer of the older version that is still at
    work while this happens goes on undisturbed. All or nothing: one transaction.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != 1:
            connection.execute("ROLLBACK")
            return  # another process was faster
        for statement in ADDED_IN_2.split(";"):
            if statement.strip():
                connection.execute(statement)
        add_text_index(connection)
        index = has_text_index(connection)
        prefixes = {digest[:16]: digest for (digest,) in connection.execute("SELECT sha256 FROM blobs")}
        rows = connection.execute("SELECT session_id, seq, kind, payload FROM events").fetchall()
        for session_id, seq, kind, payload in rows:
            for handle in set(_HANDLE.findall(payload)):
                if handle in prefixes:
                    add_reference(connection, session_id, prefixes[handle])
            if index and kind == "message":
                with contextlib.suppress(ValueError):
                    add_text(connection, session_id, seq, json.loads(payload))
        connection.execute("PRAGMA user_version = 2")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def add_reference(connection: sqlite3.Connection, session_id: str, digest: str) -> None:
    """The session uses this blob; a blob that no session uses is removed with the next deletion."""
    connection.execute("INSERT OR IGNORE INTO blob_refs VALUES (?, ?)", (session_id, digest))


def add_text(connection: sqlite3.Connection, session_id: str, seq: int, payload: Any) -> None:
    """Puts the words of one message into the index."""
    text = searchable(payload)
    if text:
        connection.execute("INSERT INTO message_text VALUES (?, ?, ?)", (text, session_id, seq))
