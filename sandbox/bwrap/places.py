"""The host directories made for one run: private /tmp and HOME, our own files of /etc, bookkeeping."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base.process import run_process


@dataclass(frozen=True)
class PrivatePlaces:
    """Paths below the run's state directory. Shown inside: ``tmp``, ``home`` and the files in ``etc``."""

    root: Path

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def starts(self) -> Path:
        """Plans and status files, one pair per start of bubblewrap."""
        return self.root / "starts"

    def make(self, owner: tuple[int, int] | None, etc: Mapping[str, str]) -> None:
        """Makes them, closed to everybody else on the host.

        Args:
            owner: who owns /tmp and HOME, or None for the caller.
            etc: name -> content, see ``layout.private_etc``.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place, mode in ((self.tmp, 0o1777), (self.home, 0o700), (self.etc, 0o700), (self.starts, 0o700)):
            place.mkdir(mode=0o700, exist_ok=True)
            place.chmod(mode)
        if owner is not None:
            os.chown(self.tmp, *owner)
            os.chown(self.home, *owner)
        for name, content in etc.items():
            path = self.etc / name
            path.write_text(content, "utf-8")
            path.chmod(0o644)

    async def remove(self, log_path: Path) -> None:
        """Removes everything; project code may have left closed directories and trees of any depth."""
        if not self.root.is_dir():
            return
        commands = [["rm", "-rf", "--"]]
        if os.geteuid() != 0:
            commands.insert(0, ["chmod", "-R", "u+rwX", "--"])
        for command in commands:
            await run_process(
                [*command, str(self.root)],
                cwd="/",
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
                log_path=log_path,
            )
            log_path.unlink(missing_ok=True)
