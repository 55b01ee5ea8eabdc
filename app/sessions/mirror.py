"""Copies of closed sessions in an object store or any other place fsspec knows.

A copy that fails costs a run nothing: the session stays in a queue in the store, and
``whimbrel session sync`` tries again. Credentials come from the environment, where the
libraries of the object stores look for them; an address with a password in it is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.git import redact_url_secrets
from ...sandbox.base.tokens import mask
from .database import readable
from .export import json_lines
from .store import SessionStore

PATIENCE_S = 10.0
"""At the end of a run; what takes longer is left to ``session sync``."""

_WITH_FOLDERS = frozenset({"file", "local", "memory", "sftp", "ssh", "smb", "hdfs", "webdav"})


@dataclass(frozen=True)
class Copied:
    """What became of one session; ``problem`` is empty when the copy is there."""

    session_id: str
    problem: str = ""


def check_address(address: str) -> None:
    """Raises ConfigError for an address with credentials, or without a form fsspec knows."""
    parts = urlsplit(address)
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise ConfigError(
            "sessions.mirror holds credentials",
            hint="give them in the environment, for example AWS_ACCESS_KEY_ID",
        )
    if not parts.scheme:
        raise ConfigError(
            f"sessions.mirror is no address: {address}",
            hint="for example s3://bucket/prefix or file:///srv/sessions",
        )


def enqueue(store: SessionStore, session_id: str) -> None:
    """The session is to be copied (again)."""
    with readable(store.directory):
        store.connection.execute(
            "INSERT OR REPLACE INTO mirror_queue VALUES (?, ?, 0, '')", (session_id, time.time())
        )


def waiting(store: SessionStore) -> list[tuple[str, int, str]]:
    """``(session id, attempts, last problem)`` of what is still to be copied, oldest first."""
    with readable(store.directory):
        rows = store.connection.execute(
            "SELECT session_id, attempts, problem FROM mirror_queue ORDER BY since"
        )
        return [(str(session_id), int(attempts), str(problem)) for session_id, attempts, problem in rows]


def sync(store: SessionStore, address: str, *, only: str | None = None) -> list[Copied]:
    """Copies what waits (or one session of it); never raises for a place that does not work.

    Raises:
        ConfigError: the address is wrong, or what it needs is not installed.
    """
    check_address(address)
    filesystem, root = _open(address)
    results: list[Copied] = []
    for session_id, _, _ in waiting(store):
        if only is not None and session_id != only:
            continue
        info = next((each for each in store.sessions() if each.id == session_id), None)
        if info is not None and info.status == "running":
            continue  # it is queued again when it ends
        try:
            if info is not None:
                _write(filesystem, f"{root}/{session_id}.jsonl", json_lines(store, info, blobs=True))
        except Exception as error:  # noqa: BLE001 - the libraries behind fsspec raise whatever they like
            problem = _one_line(error)
            with readable(store.directory):
                store.connection.execute(
                    "UPDATE mirror_queue SET attempts = attempts + 1, problem = ? WHERE session_id = ?",
                    (problem, session_id),
                )
            results.append(Copied(session_id, problem))
            continue
        with readable(store.directory):
            store.connection.execute("DELETE FROM mirror_queue WHERE session_id = ?", (session_id,))
        results.append(Copied(session_id))
    return results


def copy_after_run(
    open_store: Callable[[], SessionStore], address: str, session_id: str, *, patience_s: float = PATIENCE_S
) -> str:
    """Queues a session that just ended and tries once; returns a line for the person, or empty.

    Whatever happens in there, the run is over in time and as it was.
    """
    told: list[str] = []

    def work() -> None:
        try:
            store = open_store()
            enqueue(store, session_id)
            failed = [each.problem for each in sync(store, address, only=session_id) if each.problem]
            told.append(failed[0] if failed else "")
            store.close()
        except Exception as error:  # noqa: BLE001
            told.append(_one_line(error))

    # A daemon: a place that never answers must not keep the process.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(patience_s)
    problem = told[0] if told else f"no answer within {patience_s:.0f} s"
    return (
        f"the session was not copied to {_shown(address)}: {problem} (retry: whimbrel session sync)"
        if problem
        else ""
    )


def _open(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # pyright: ignore[reportMissingTypeStubs]

        filesystem, root = url_to_fs(address)
    except ImportError as error:
        raise ConfigError(
            f"sessions.mirror needs a package that is not here: {error}", hint="pip install 'whimbrel[s3]'"
        ) from error
    except ValueError as error:
        raise ConfigError(f"sessions.mirror: {_one_line(error)}") from error
    return filesystem, str(root).rstrip("/")


def _write(filesystem: Any, path: str, lines: Any) -> None:
    """All or nothing: a reader never finds half a session."""
    protocol: Any = filesystem.protocol
    if _WITH_FOLDERS.intersection((protocol,) if isinstance(protocol, str) else protocol):
        # Not in an object store: there this would make a bucket out of a typing error.
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    with filesystem.transaction, filesystem.open(path, "wb") as stream:
        for line in lines:
            stream.write(line.encode("utf-8"))


def _shown(address: str) -> str:
    return mask(redact_url_secrets(address))


def _one_line(error: BaseException) -> str:
    text = error.one_line() if hasattr(error, "one_line") else f"{type(error).__name__}: {error}"  # pyright: ignore
    return mask(redact_url_secrets(" ".join(str(text).split())))[:300]
