"""What a test does outside of its own process, seen through audit events.

Kinds: ``starts`` (another program, which would see the files on disk and not an edit made in
memory), ``writes`` (a file of the repository), ``binds`` (a port or socket path). Tests of the
last two kinds disturb each other when two candidates run at the same time.
"""

from __future__ import annotations

import os
import sys
from typing import Any, List, Set

_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")
_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


class Watch:
    """Collects kinds between two calls of ``take``; for a process that ends soon (hooks stay for good).

    Args:
        root: the repository.
        scratch: a directory whose files are this process's own.
    """

    def __init__(self, root: str, scratch: str) -> None:
        self._root = os.path.realpath(root).rstrip(os.sep) + os.sep
        self._scratch = os.path.realpath(scratch).rstrip(os.sep) + os.sep
        self._seen: Set[str] = set()

    def start(self) -> None:
        add = getattr(sys, "addaudithook", None)
        if add is not None:
            add(self._hook)

    def take(self) -> List[str]:
        taken = sorted(self._seen)
        self._seen.clear()
        return taken

    def _hook(self, event: str, arguments: Any) -> None:
        if event == "open":
            path, mode, flags = arguments
            writing = (isinstance(mode, str) and any(each in mode for each in "wax+")) or (
                mode is None and isinstance(flags, int) and flags & _WRITING
            )
            if writing:
                self._changed(path)
        elif event in _STARTS:
            self._seen.add("starts")
        elif event in _CHANGES:
            self._changed(arguments[0])
        elif event == "socket.bind":
            self._seen.add("binds")
        elif event == "sqlite3.connect":
            self._changed(arguments[0])

    def _changed(self, path: Any) -> None:
        if not isinstance(path, (str, bytes)):
            return
        text = os.fsdecode(path)
        if text == ":memory:":
            return
        if not os.path.isabs(text):
            text = os.path.join(os.getcwd(), text)
        text = os.path.normpath(text)
        if text.startswith(self._root) and not text.startswith(self._scratch):
            self._seen.add("writes")
