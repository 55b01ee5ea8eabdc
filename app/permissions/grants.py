"""Answers a person gave: for exactly one text or for a prefix they chose, in one repository.

For one run they live in memory; stored ones lie in the person's state directory, per repository.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import atomic_write
from ...sandbox.base.secrets import redact
from ..paths import state_dir

_FORMAT = 1


@dataclass(frozen=True)
class Grant:
    """Something that need not be asked again."""

    tool: str
    subject: str = ""
    """Exactly this; or empty when there is a prefix."""
    prefix: str = ""
    """A command pattern such as ``git log*``."""

    @property
    def shown(self) -> str:
        return f"{self.tool}({self.prefix or self.subject})"


class Grants:
    """The answers of one run, and those stored for its repository."""

    def __init__(self, repository: Path | None = None, path: Path | None = None) -> None:
        self._repository = repository
        self._store = path or (default_path() if repository is not None else None)
        self._now: set[Grant] = set()
        self._stored: frozenset[Grant] | None = None

    @classmethod
    def for_this_run(cls) -> Grants:
        """Nothing is stored."""
        return cls()

    def holds(self, tool: str, subject: str) -> bool:
        """Whether exactly this was agreed to. What holds a secret never matches: it is never stored."""
        return bool(subject) and Grant(tool, subject) in self._all()

    def prefixes(self, tool: str) -> list[str]:
        """Command patterns agreed to."""
        return sorted(grant.prefix for grant in self._all() if grant.tool == tool and grant.prefix)

    def add(self, tool: str, subject: str, prefix: str = "", *, store: bool = False) -> None:
        """Remembers for this run, and with ``store`` for later runs in this repository."""
        grant = Grant(tool, "" if prefix else subject, prefix)
        self._now.add(grant)
        if not store or self._store is None or self._repository is None:
            return
        if redact(grant.shown) != grant.shown:
            return
        with _locked(self._store):
            entries = _load(self._store)
            mine = entries.setdefault(_key(self._repository), [])
            if grant not in mine:
                mine.append(grant)
                _save(self._store, entries)
        self._stored = None

    def stored(self) -> tuple[Grant, ...]:
        """Those of earlier runs in this repository, in the order they were given."""
        if self._store is None or self._repository is None:
            return ()
        return tuple(_load(self._store).get(_key(self._repository), ()))

    def forget(self, number: int | None = None) -> int:
        """Takes back the ``number``-th stored answer (from 1), or all; returns how many went.

        Raises:
            ConfigError: the store cannot be read or written.
        """
        if self._store is None or self._repository is None:
            return 0
        with _locked(self._store):
            entries = _load(self._store)
            mine = entries.get(_key(self._repository), [])
            kept = [] if number is None else [each for at, each in enumerate(mine, 1) if at != number]
            if len(kept) != len(mine):
                entries[_key(self._repository)] = kept
                _save(self._store, {key: value for key, value in entries.items() if value})
        self._stored = None
        return len(mine) - len(kept)

    def _all(self) -> set[Grant]:
        if self._stored is None:
            self._stored = frozenset(self.stored())
        return self._now | self._stored


def default_path() -> Path:
    """``permissions.json`` in the person's state directory."""
    return state_dir() / "permissions.json"


def _key(repository: Path) -> str:
    return str(repository.resolve())


def _load(path: Path) -> dict[str, list[Grant]]:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError("another format")
        repositories = cast("dict[str, list[dict[str, str]]]", data["repositories"])
        return {
            str(key): [
                Grant(str(entry["tool"]), str(entry.get("subject", "")), str(entry.get("prefix", "")))
                for entry in entries
            ]
            for key, entries in repositories.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "move it away to be asked afresh"
        raise ConfigError(f"the remembered permissions in {path} cannot be read", hint=hint) from error


def _save(path: Path, entries: dict[str, list[Grant]]) -> None:
    data = {
        key: [{"tool": each.tool, "subject": each.subject, "prefix": each.prefix} for each in grants]
        for key, grants in entries.items()
    }
    text = json.dumps({"format": _FORMAT, "repositories": data}, indent=1, sort_keys=True)
    try:
        atomic_write(path, text.encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(f"the permissions file {path} cannot be written: {error.strerror}") from error


@contextmanager
def _locked(path: Path) -> Generator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"the permissions file {path} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
