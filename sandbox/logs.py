"""Where the full output of each command lies on the host."""

from __future__ import annotations

import re
from pathlib import Path


class RunLogs:
    """Hands out one log path per command: ``<state>/logs/0007-label.log``."""

    def __init__(self, state_dir: Path) -> None:
        self.directory = state_dir / "logs"
        self._count = 0

    def next_path(self, label: str) -> Path:
        """A path nobody else of this run has; the directory exists."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        word = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-.")[:40] or "run"
        while True:
            self._count += 1
            path = self.directory / f"{self._count:04d}-{word}.log"
            if not path.exists():
                return path
