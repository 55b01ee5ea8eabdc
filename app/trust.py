"""Which repositories' configuration the person has agreed to obey.

Trust is bound to the repository's path **and** to the content of what it configures
(a digest per kind: recipe, instructions, MCP entries, hooks, skills, settings): when
that changes, the question is asked again. Kept in the person's
state directory, never in the repository.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..sandbox.base.errors import ConfigError
from ..sandbox.base.files import atomic_write
from .paths import state_dir

if TYPE_CHECKING:
    from .permissions.steering import Kind, Steering

_FORMAT: Final = 1


class TrustStore:
    """The remembered decisions; safe to use from several processes at once."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def is_trusted(self, repository: Path, digest: str) -> bool:
        """Whether exactly this content was trusted for this repository. An empty digest never is.

        Raises:
            ConfigError: the store cannot be read; it is never silently taken for empty or for "yes".
        """
        return bool(digest) and digest in self._load().get(_key(repository), [])

    def remember(self, repository: Path, digest: str, *, about: Mapping[str, Any] | None = None) -> None:
        """Trusts this content for this repository from now on; ``about`` is kept for ``listed``."""
        if not digest:
            return
        with self._locked():
            entries = self._load()
            known = entries.setdefault(_key(repository), [])
            if digest not in known:
                known.append(digest)
                self._save(entries, {digest: dict(about)} if about else {})

    def listed(self, repository: Path | None = None) -> list[tuple[str, str, dict[str, Any]]]:
        """(repository, digest, what it is about) of every decision, or of one repository."""
        wanted = None if repository is None else _key(repository)
        notes = self._notes()
        return [
            (path, digest, notes.get(digest, {}))
            for path, digests in sorted(self._load().items())
            if wanted in (None, path)
            for digest in digests
        ]

    def forget(self, repository: Path) -> bool:
        """Takes all trust in a repository back; returns whether there was any."""
        with self._locked():
            entries = self._load()
            had = entries.pop(_key(repository), None) is not None
            if had:
                self._save(entries)
        return had

    def _load(self) -> dict[str, list[str]]:
        try:
            data: Any = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._broken() from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise self._broken()
        repositories: Any = data.get("repositories")
        if not isinstance(repositories, dict):
            raise self._broken()
        return {
            str(path): [str(item) for item in digests]
            for path, digests in repositories.items()
            if isinstance(digests, list)
        }

    def _broken(self) -> ConfigError:
        return ConfigError(f"the trust store {self.path} cannot be read", hint="move it away to start afresh")

    def _notes(self) -> dict[str, dict[str, Any]]:
        try:
            about: Any = json.loads(self.path.read_text(encoding="utf-8")).get("about", {})
        except (OSError, ValueError, AttributeError):
            return {}
        return cast("dict[str, dict[str, Any]]", about) if isinstance(about, dict) else {}

    def _save(self, entries: dict[str, list[str]], more: Mapping[str, dict[str, Any]] | None = None) -> None:
        used = {digest for digests in entries.values() for digest in digests}
        about = {key: value for key, value in {**self._notes(), **(more or {})}.items() if key in used}
        data = {"format": _FORMAT, "repositories": entries, "about": about}
        text = json.dumps(data, indent=1, sort_keys=True)
        atomic_write(self.path, text.encode(), mode=0o600)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def trusted_content(repository: Path, kind: Kind, *, trust: bool = False) -> tuple[Steering, bool]:
    """What a repository has of one kind, and whether the person agreed to exactly that.

    Obey the bytes in it and nothing read later. ``trust`` agrees to it now and remembers that.

    Raises:
        ConfigError: the store or the repository's recipe cannot be read.
    """
    from .permissions.steering import find_steering

    found = find_steering(repository, kind)
    if not found.digest:
        return found, False
    store = TrustStore()
    if trust:
        _remember(store, repository, found)
    return found, trust or store.is_trusted(repository, found.digest)


def is_trusted(repository: Path, kind: Kind = "recipe") -> bool:
    """Whether everything of this kind that the repository configures now was trusted before.

    Raises:
        ConfigError: the store or the repository's recipe cannot be read.
    """
    return trusted_content(repository, kind)[1]


def remember_trust(repository: Path, kinds: Iterable[Kind] | None = None) -> None:
    """Trusts what this repository configures now, in the default store.

    Raises:
        ConfigError: the store or the repository's recipe cannot be read or written.
    """
    from .permissions.steering import KINDS

    for kind in kinds or KINDS:
        trusted_content(repository, kind, trust=True)


def _remember(store: TrustStore, repository: Path, found: Steering) -> None:
    try:
        store.remember(repository, found.digest, about={"kind": found.kind, "files": sorted(found.files)})
    except OSError as error:
        raise ConfigError(f"the trust store cannot be written: {error.strerror}") from error


def default_path() -> Path:
    """``trust.json`` in the person's state directory (``WHIMBREL_STATE_DIR`` moves it with the rest)."""
    return state_dir() / "trust.json"


def _key(repository: Path) -> str:
    return str(repository.resolve())
