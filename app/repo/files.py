"""Opening files of a workspace that a hostile process may be changing at the same time.

What runs inside the sandbox can put a FIFO, a device or a symbolic link where a
regular file was a moment ago. So a path is walked component by component without
following links, opened without blocking, and only then asked what it is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from ...sandbox.base.errors import ToolError

__all__ = ["looks_binary", "open_directory", "open_regular", "read_regular"]

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def open_regular(root: Path, relative: str) -> int:
    """A descriptor (read only, close-on-exec) of the regular file ``root/relative``.

    ``root`` itself is trusted; nothing below it is: no component may be a symbolic link.

    Raises:
        ToolError: the path leaves the root, or is a link, a directory, a FIFO, a socket or a device.
        OSError: it does not exist or cannot be read.
    """
    parts = PurePosixPath(relative).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise ToolError(f"{relative!r} is not a path inside the workspace")
    directory = open_directory(root, "/".join(parts[:-1]))
    try:
        # A socket cannot be opened at all and a link gives ELOOP: name both by what they are.
        mode = os.stat(parts[-1], dir_fd=directory, follow_symlinks=False).st_mode
        _require_regular(relative, mode)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(parts[-1], flags, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        _require_regular(relative, os.fstat(descriptor).st_mode)
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor


def open_directory(root: Path, relative: str) -> int:
    """A descriptor of the directory ``root/relative`` ("" and "." are the root), links not followed.

    Raises:
        OSError: it does not exist, is no directory, or a component is a link.
    """
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in PurePosixPath(relative).parts:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            below = os.open(part, flags, dir_fd=directory)
        finally:
            os.close(directory)
        directory = below
    return directory


def read_regular(root: Path, relative: str, limit: int) -> bytes | None:
    """All bytes of a regular file, or None when there are more than ``limit``. Raises as open_regular."""
    with os.fdopen(open_regular(root, relative), "rb") as stream:
        if os.fstat(stream.fileno()).st_size > limit:
            return None
        data = stream.read(limit + 1)
    return None if len(data) > limit else data


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text: a NUL byte, and no UTF-16 mark that explains it."""
    return b"\0" in head and not head.startswith(_UTF16_MARKS)


def _require_regular(relative: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise ToolError(f"{relative} is a directory, not a file")
    if stat.S_ISLNK(mode):
        raise ToolError(f"{relative} is a symbolic link; links are not followed here")
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"))
    kind = next((text for test, text in kinds if test(mode)), "a device")
    raise ToolError(f"{relative} is {kind}, not a regular file")
