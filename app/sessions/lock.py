"""One writer per session: an advisory file lock that the kernel drops when its process dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from ...sandbox.base.errors import UsageError

_ATTEMPTS = 6


class SessionLock:
    """Held from construction to ``release``.

    Where the directory cannot be written (the store is in memory then) there is
    nobody to keep out, and the lock is void.
    """

    def __init__(self, directory: Path, session_id: str) -> None:
        self._path = directory / f"{session_id}.lock"
        self._descriptor: int | None = None
        # A reader's probe holds the lock for an instant, and a writer that just ended
        # may remove the file between our open and our lock: hence a few attempts.
        for attempt in range(_ATTEMPTS):
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                if attempt == _ATTEMPTS - 1:
                    raise UsageError(
                        f"session {session_id} is being written by another process",
                        hint="wait for it to end, or start a new session",
                    ) from error
                time.sleep(0.02)
                continue
            if _same_file(descriptor, self._path):
                self._descriptor = descriptor
                return
            os.close(descriptor)

    def release(self) -> None:
        """Gives the session free and leaves no file behind; idempotent."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


def is_locked(directory: Path, session_id: str) -> bool:
    """Whether a living process writes the session."""
    try:
        descriptor = os.open(directory / f"{session_id}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A shared probe: two processes asking at once must not see each other as the writer.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        on_disk = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (mine.st_dev, mine.st_ino) == (on_disk.st_dev, on_disk.st_ino)
