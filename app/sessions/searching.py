"""Finding sessions by what was said in them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

_LONGEST = 4000
"""Of a tool's arguments or result; texts of people and models count whole."""
_AROUND = 60


@dataclass(frozen=True)
class Hit:
    """One place that matches; ``seq`` 0 is the title."""

    session_id: str
    seq: int
    excerpt: str


def searchable(payload: Any) -> str:
    """The words of a stored message: texts, calls and (the beginnings of) results; no thinking."""
    parts: Any = cast("dict[str, Any]", payload).get("parts") if isinstance(payload, dict) else None
    if not isinstance(parts, list | tuple):
        return ""
    if cast("dict[str, Any]", payload).get("role") == "system":
        return ""  # the same in every session
    found: list[str] = []
    for part in cast("Sequence[Any]", parts):
        if not isinstance(part, dict):
            continue
        kind = part.get("kind")
        if kind == "text":
            found.append(str(part.get("text", "")))
        elif kind == "tool_call":
            found.append(f"{part.get('name', '')} {str(part.get('arguments', ''))[:_LONGEST]}")
        elif kind == "tool_result":
            found.append(str(part.get("text", ""))[:_LONGEST])
    # Unpaired surrogates cannot be stored as text, and nobody searches for them.
    return "\n".join(found).encode("utf-8", "replace").decode("utf-8")


def search(connection: sqlite3.Connection, query: str, *, indexed: bool, limit: int) -> list[Hit]:
    """Messages and titles that hold every word of ``query``, whatever its case; newest sessions first."""
    words = query.casefold().split()
    if not words:
        return []
    hits: list[Hit] = []
    titles = connection.execute("SELECT id, title FROM sessions ORDER BY created DESC").fetchall()
    for session_id, title in titles:
        if all(word in title.casefold() for word in words):
            hits.append(Hit(session_id, 0, title))
    # The index knows words and their beginnings; scripts that write without spaces need a plain look.
    found = _in_index(connection, words) if indexed and query.isascii() else _in_messages(connection, words)
    order = {session_id: number for number, (session_id, _) in enumerate(titles)}
    hits += found
    hits.sort(key=lambda hit: (order.get(hit.session_id, len(order)), hit.seq))
    return hits[:limit]


def _in_index(connection: sqlite3.Connection, words: list[str]) -> list[Hit]:
    quoted = " ".join('"' + word.replace('"', '""') + '"*' for word in words)
    rows = connection.execute(
        "SELECT session_id, seq, text FROM message_text WHERE message_text MATCH ?", (quoted,)
    )
    return [Hit(session_id, seq, _excerpt(text, words)) for session_id, seq, text in rows]


def _in_messages(connection: sqlite3.Connection, words: list[str]) -> Iterator[Hit]:
    rows = connection.execute("SELECT session_id, seq, payload FROM events WHERE kind = 'message'")
    for session_id, seq, payload in rows:
        try:
            text = searchable(json.loads(payload))
        except ValueError:
            continue  # damaged; the others count
        folded = text.casefold()
        if all(word in folded for word in words):
            yield Hit(session_id, seq, _excerpt(text, words))


def _excerpt(text: str, words: list[str]) -> str:
    folded = text.casefold()
    place = min((at for word in words if (at := folded.find(word)) >= 0), default=0)
    start = max(0, place - _AROUND)
    shown = text[start : place + 2 * _AROUND]
    before, after = "..." if start else "", "..." if place + 2 * _AROUND < len(text) else ""
    return before + " ".join(shown.split()) + after
