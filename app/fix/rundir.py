"""The folder of one running job, and the sweep of folders whose owner died."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from pathlib import Path

from ...sandbox.base.errors import ConfigError
from ..paths import runs_dir

_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


def new_run_id() -> str:
    """A name that sorts by time and no other run has."""
    return time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)


class RunDirectory:
    """A folder for the working copy and logs of one run.

    A lock held on ``lock`` for the life of the process says that the run is alive;
    the kernel drops it also on kill -9, so the next start can tell which folders
    are leftovers.
    """

    def __init__(self, root: Path, run_id: str, lock: int) -> None:
        self.root = root
        self.run_id = run_id
        self._lock = lock

    @classmethod
    def create(cls, run_id: str) -> RunDirectory:
        """Makes and locks the folder of the run ``run_id`` (see ``new_run_id``)."""
        root = runs_dir() / run_id
        try:
            root.mkdir(mode=0o711)
            lock = os.open(root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"cannot create the working folder {root}: {error.strerror}",
                hint="free some space or set WHIMBREL_RUN_DIR",
            ) from error
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(root, run_id, lock)

    @property
    def logs(self) -> Path:
        path = self.root / "logs"
        path.mkdir(exist_ok=True, mode=0o700)
        return path

    def remove(self) -> None:
        """Removes the folder; idempotent."""
        remove_tree(self.root)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep_dead_runs() -> list[str]:
    """Removes folders of runs whose process is gone; returns their run ids.

    Only what has the name of a run is looked at: the person may have named a folder
    for runs that holds other things too.
    """
    swept: list[str] = []
    for root in sorted(runs_dir().iterdir()):
        if not _RUN_ID.fullmatch(root.name) or root.is_symlink() or not root.is_dir():
            continue
        lock_path = root / "lock"
        try:
            # A folder without a lock file yet may be one that another process is creating right now.
            if not lock_path.exists() and time.time() - root.stat().st_mtime < 60:
                continue
            lock = os.open(lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            continue  # another process swept it between the listing and here, or it is not ours
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            remove_tree(root)
            swept.append(root.name)
        finally:
            os.close(lock)
    return swept


def remove_tree(root: Path) -> None:
    """Removes a tree including folders made unreadable from inside the sandbox."""

    def open_up(function: object, path: str, _: object) -> None:
        parent = Path(path).parent
        for target in (parent, Path(path)):
            try:
                if stat.S_ISDIR(target.lstat().st_mode):
                    target.chmod(0o700)
            except OSError:
                return
        if callable(function):
            try:
                function(path)
            except OSError:
                shutil.rmtree(path, ignore_errors=True)

    if root.exists():
        shutil.rmtree(root, onerror=open_up)
