"""What was asked before, per repository, in the person's state folder."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import atomic_write
from ...sandbox.base.secrets import redact
from ..paths import state_dir

_KEPT = 500
_LONGEST = 20_000
"""Characters of one entry; the session has the whole."""


class PromptHistory:
    """Oldest first; the position walks back and forth like a shell's. Trouble with the file is ignored."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._entries: list[str] | None = None
        self._at = 0
        self._draft = ""

    @property
    def entries(self) -> list[str]:
        if self._entries is None:
            self._entries = self._load()
            self._at = len(self._entries)
        return self._entries

    def add(self, text: str) -> None:
        """Remembers a prompt; the same again in a row counts once, secrets are masked."""
        entry = redact(text)[:_LONGEST]
        entries = self.entries
        if not entries or entries[-1] != entry:
            entries.append(entry)
            del entries[:-_KEPT]
            self._save()
        self._at = len(entries)

    def older(self, current: str) -> str | None:
        """The entry before; ``current`` is kept for the way back."""
        entries = self.entries
        if self._at == 0:
            return None
        if self._at == len(entries):
            self._draft = current
        self._at -= 1
        return entries[self._at]

    def newer(self) -> str | None:
        """The entry after, at the end what was being written."""
        if self._at >= len(self.entries):
            return None
        self._at += 1
        return self._draft if self._at == len(self.entries) else self.entries[self._at]

    def rest(self) -> None:
        """The prompt was changed by hand or sent: the next step starts from the newest again."""
        self._at = len(self.entries)

    def _load(self) -> list[str]:
        try:
            lines = self._path().read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError, ConfigError):
            return []
        found: list[str] = []
        for line in lines[-_KEPT:]:
            try:
                value: Any = json.loads(line)
            except ValueError:
                continue  # a damaged line costs only itself
            if isinstance(value, str):
                found.append(value)
        return found

    def _save(self) -> None:
        data = "".join(json.dumps(entry) + "\n" for entry in self.entries)
        try:
            path = self._path()
            path.parent.mkdir(exist_ok=True, mode=0o700)
            atomic_write(path, data.encode(), mode=0o600)
        except (OSError, ConfigError):
            return

    def _path(self) -> Path:
        name = hashlib.sha256(os.fsencode(self._repository)).hexdigest()[:24]
        return state_dir() / "prompts" / f"{name}.jsonl"
