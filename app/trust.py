"""Which repositories' configuration the person has agreed to obey.

Trust is bound to the repository's path **and** to the content of what it configures
(a digest): when the recipe changes, the question is asked again. Kept in the person's
state directory, never in the repository.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..sandbox.base.errors import ConfigError
from ..sandbox.base.files import atomic_write
from .paths import state_dir

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

    def remember(self, repository: Path, digest: str) -> None:
        """Trusts this content for this repository from now on."""
        if not digest:
            return
        with self._locked():
            entries = self._load()
            known = entries.setdefault(_key(repository), [])
            if digest not in known:
                known.append(digest)
                self._save(entries)

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

    def _save(self, entries: dict[str, list[str]]) -> None:
        text = json.dumps({"format": _FORMAT, "repositories": entries}, indent=1, sort_keys=True)
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


def is_trusted(repository: Path) -> bool:
    """Whether everything this repository configures now was trusted before, in the default store.

    Raises:
        ConfigError: the store or the repository's recipe cannot be read.
    """
    from .repo.environment.recipe import load_configuration

    return TrustStore().is_trusted(repository, load_configuration(repository).digest)


def remember_trust(repository: Path) -> None:
    """Trusts what this repository configures now, in the default store.

    Raises:
        ConfigError: the store or the repository's recipe cannot be read or written.
    """
    from .repo.environment.recipe import load_configuration

    try:
        TrustStore().remember(repository, load_configuration(repository).digest)
    except OSError as error:
        raise ConfigError(f"the trust store cannot be written: {error.strerror}") from error


def default_path() -> Path:
    """``trust.json`` in the person's state directory (``WHIMBREL_STATE_DIR`` moves it with the rest)."""
    return state_dir() / "trust.json"


def _key(repository: Path) -> str:
    return str(repository.resolve())
