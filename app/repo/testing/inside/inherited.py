"""What forked processes would share with each other because it was open before the fork."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any, Dict, List, Tuple

_FOLDER = "/proc/self/fd"


class OpenFile:
    """A file that the project opened while it was imported; its position is shared after a fork."""

    def __init__(self, descriptor: int, flags: int) -> None:
        self._descriptor = descriptor
        self._flags = flags

    def open_anew(self) -> None:
        """The same file at the same position, for this process alone."""
        try:
            position = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            again = os.open(
                "%s/%d" % (_FOLDER, self._descriptor), self._flags & ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL)
            )
        except OSError:
            return
        os.lseek(again, position, os.SEEK_SET)
        os.dup2(again, self._descriptor, os.get_inheritable(self._descriptor))
        os.close(again)


def descriptors() -> Dict[int, Tuple[int, int]]:
    """Open descriptors and what they stand for (device and inode)."""
    found: Dict[int, Tuple[int, int]] = {}
    try:
        names = os.listdir(_FOLDER)
    except OSError:
        # No /proc: what is open cannot be told.
        return found
    for name in names:
        about = _about(int(name))
        if about is not None:
            found[int(name)] = (about.st_dev, about.st_ino)
    return found


def _about(descriptor: int) -> Any:
    try:
        return os.fstat(descriptor)
    except OSError:
        return None


def look(before: Dict[int, Tuple[int, int]]) -> Tuple[List[OpenFile], str]:
    """Files opened since, and the first thing that processes cannot share without disturbing each other."""
    files: List[OpenFile] = []
    shared = ""
    known = set(before.values())
    for descriptor, identity in sorted(descriptors().items()):
        about = _about(descriptor)
        if about is None or identity in known:
            continue
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        access = flags & os.O_ACCMODE
        if stat.S_ISREG(about.st_mode):
            if access == os.O_RDWR:
                # A database, most likely.
                shared = shared or "a file open for reading and writing"
            elif access == os.O_RDONLY:
                files.append(OpenFile(descriptor, flags))
        elif stat.S_ISSOCK(about.st_mode):
            shared = shared or "a socket"
        elif stat.S_ISFIFO(about.st_mode):
            shared = shared or "a pipe"
        elif not stat.S_ISCHR(about.st_mode) and not stat.S_ISDIR(about.st_mode):
            shared = shared or "a selector"
    return files, shared
