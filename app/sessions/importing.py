"""Taking an exported session in. The file may come from anybody: every line is checked first.

Nothing of it is obeyed: an imported session is text to read and to go on with by its id;
`run --continue` never picks it by itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import ValidationError

from ...engine.chat import Message
from ...sandbox.base.errors import UsageError
from ...sandbox.base.tokens import mask, mask_json
from ..version import __version__
from .database import readable, transaction
from .migration import add_reference, add_text, has_text_index
from .store import SessionStore
from .writer import EVENT_VERSION

MAX_LINE_BYTES = 128 << 20
MAX_EVENTS = 1_000_000
MAX_TOTAL_BYTES = 2 << 30
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_KIND = re.compile(r"[a-z][a-z0-9_]{0,40}")
_HANDLE = re.compile(r"[0-9a-f]{12,64}")
_HEAD = ("title", "repository", "model", "status", "product_version")


@dataclass
class Imported:
    """What was taken in."""

    id: str
    events: int
    new_id: bool
    notes: list[str] = field(default_factory=list[str])


@dataclass
class _Parsed:
    head: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[tuple[int, int | None, str, float, Any]] = field(
        default_factory=list[tuple[int, "int | None", str, float, Any]]
    )
    blobs: list[tuple[bytes, str]] = field(default_factory=list[tuple[bytes, str]])
    missing: int = 0
    notes: list[str] = field(default_factory=list[str])


def import_session(store: SessionStore, lines: Iterable[bytes], *, new_id: bool = False) -> Imported:
    """Reads an export in JSON lines and stores it, all or nothing.

    A last line that was cut is left out and told; damage anywhere else refuses the file. The id
    is kept unless it is taken or ``new_id`` asks for another.

    Raises:
        UsageError: the file is no export of a session, or something in it is not what it says.
    """
    parsed = _parse(lines)
    wanted = str(parsed.head["id"])
    with readable(store.directory):
        taken = store.connection.execute("SELECT 1 FROM sessions WHERE id = ?", (wanted,)).fetchone()
    fresh = new_id or taken is not None
    session_id = store.new_id() if fresh else wanted
    head, now = mask_json(parsed.head), time.time()
    with readable(store.directory), transaction(store.connection):
        store.connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session_id, head["created"], head["updated"], head["status"],
                " ".join(head["title"].split())[:200], head["repository"], head["model"][:200],
                head["product_version"][:40],
            ),
        )  # fmt: skip
        indexed = has_text_index(store.connection)
        mark = (
            len(parsed.events) + 1,
            len(parsed.events),
            "imported",
            now,
            {"id": wanted, "by": __version__},
        )
        for seq, parent, kind, when, payload in [*parsed.events, mark]:
            clean = mask_json(payload)
            text = json.dumps(clean, ensure_ascii=True, separators=(",", ":"))
            store.connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session_id, seq, parent, kind, EVENT_VERSION, when, text),
            )
            if indexed and kind == "message":
                add_text(store.connection, session_id, seq, clean)
        for data, media in parsed.blobs:
            digest = hashlib.sha256(data).hexdigest()
            store.connection.execute(
                "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)",
                (digest, media, len(data), zlib.compress(data, 1)),
            )
            add_reference(store.connection, session_id, digest)
    if parsed.missing:
        parsed.notes.append(f"{parsed.missing} complete outputs are not in the file")
    return Imported(session_id, len(parsed.events), fresh, parsed.notes)


def _parse(lines: Iterable[bytes]) -> _Parsed:
    parsed, total = _Parsed(), 0
    broken: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=1):
        if broken is not None:
            if line.strip():
                raise _refused(*broken)
            continue
        total += len(line)
        if len(line) > MAX_LINE_BYTES or total > MAX_TOTAL_BYTES:
            raise _refused(number, "it is larger than a session can be")
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            # Whether this was the last line, cut by a crash or a full disk, the next one tells.
            broken = (number, f"is not JSON ({type(error).__name__})")
            continue
        if not isinstance(value, dict):
            raise _refused(number, "is no JSON object")
        _take(parsed, number, cast("dict[str, Any]", value))
    if broken is not None:
        if not parsed.head:
            raise _refused(*broken)
        parsed.notes.append(f"line {broken[0]} is cut off and was left out")
    if not parsed.head:
        raise UsageError(
            "the file holds no session", hint="export one with `whimbrel session export ID --blobs`"
        )
    return parsed


def _take(parsed: _Parsed, number: int, value: dict[str, Any]) -> None:
    kind = value.get("kind")
    if not parsed.head:
        if kind != "session":
            raise _refused(number, "is not the head of a session")
        parsed.head = _head(number, value)
    elif "seq" in value:
        if parsed.blobs or parsed.missing:
            raise _refused(number, "is an event behind the blobs")
        parsed.events.append(_event(parsed, number, value))
    elif kind == "blob":
        parsed.blobs.append(_blob(number, value))
    elif kind == "missing_blob":
        parsed.missing += 1
    else:
        raise _refused(number, "is neither an event nor a blob")


def _head(number: int, value: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value.get("id"), str) or not _ID.fullmatch(value["id"]):
        raise _refused(number, "has no valid session id")
    for name in _HEAD:
        if not isinstance(value.get(name), str) or len(value[name]) > 4096:
            raise _refused(number, f"has no valid {name}")
    for name in ("created", "updated"):
        value[name] = _time(number, value.get(name))
    if value["status"] == "running":
        value["status"] = "interrupted"
    return value


def _event(parsed: _Parsed, number: int, value: dict[str, Any]) -> tuple[int, int | None, str, float, Any]:
    seq, parent, kind = value.get("seq"), value.get("parent_seq"), value.get("kind")
    expected = len(parsed.events) + 1
    if type(seq) is not int or seq != expected or expected > MAX_EVENTS:
        raise _refused(number, f"has the sequence number {seq!r:.20}, where {expected} is due")
    if value.get("session") != parsed.head["id"]:
        raise _refused(number, "belongs to another session")
    if parent is not None and (type(parent) is not int or not 1 <= parent < seq):
        raise _refused(number, "follows an event that is not before it")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise _refused(number, "has no valid kind")
    if type(value.get("version")) is not int or value["version"] > EVENT_VERSION:
        raise _refused(number, "was written by a newer version of whimbrel")
    payload = value.get("payload")
    if kind == "message":
        try:
            payload = Message.model_validate(payload).model_dump()
        except ValidationError as error:
            raise _refused(number, f"is no message: {error.errors()[0]['msg']}") from error
    if kind == "files":
        _check_files(number, payload)
    return seq, parent, kind, _time(number, value.get("time")), payload


def _check_files(number: int, payload: Any) -> None:
    hashes = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
    table: dict[str, Any] = payload if isinstance(payload, dict) else {}
    commit, diff = table.get("base_commit"), table.get("diff")
    good = (
        all(
            isinstance(table.get(name), str) and hashes.fullmatch(table[name])
            for name in ("base_tree", "tree")
        )
        and (commit is None or (isinstance(commit, str) and bool(hashes.fullmatch(commit))))
        and isinstance(diff, str)
        and (not diff or bool(_HANDLE.fullmatch(diff)))
    )
    if not good:
        raise _refused(number, "is no record of files")


def _blob(number: int, value: dict[str, Any]) -> tuple[bytes, str]:
    handle, media = str(value.get("handle", "")).removeprefix("artifact:"), value.get("media")
    if not _HANDLE.fullmatch(handle) or not isinstance(media, str) or len(media) > 200:
        raise _refused(number, "has no valid handle or media type")
    try:
        data = base64.b64decode(str(value.get("data_base64", "")), validate=True)
    except ValueError as error:
        raise _refused(number, "holds no valid base64") from error
    if not hashlib.sha256(data).hexdigest().startswith(handle):
        raise _refused(number, f"is not the blob {handle[:16]} that it says it is")
    return data, mask(media)


def _time(number: int, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(number, "has no valid time")
    if not 0 <= value < 1e11:
        raise _refused(number, "has no valid time")
    return float(value)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _refused(number: int, why: str) -> UsageError:
    return UsageError(
        f"nothing was imported: line {number} {why}", hint="only whole exports in JSON lines are taken in"
    )
