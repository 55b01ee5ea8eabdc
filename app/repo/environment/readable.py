"""Making interpreters and environments readable for the sandbox's unprivileged user.

Started by root, the isolating sandboxes run commands as a fixed non-root user. Parent
directories are no problem (a mount leads past them), but a directory of mode 0700 inside
an environment is: then a readable copy in the cache is mounted in its place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ....sandbox.base.errors import EnvironmentBroken
from ...paths import cache_dir

MAX_COPY_BYTES: Final = 4 << 30


def cache_directory() -> Path:
    """Whimbrel's cache directory of the calling user."""
    return cache_dir()


def first_unreadable(source: Path, owner: tuple[int, int]) -> Path | None:
    """The first file or directory under ``source`` that the user ``owner`` (uid, gid) cannot read, or None.

    Directories above ``source`` do not count.
    """
    for path, status in _walk(source):
        needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if status.st_uid == owner[0]:
            needed <<= 6
        elif status.st_gid == owner[1]:
            needed <<= 3
        if stat.S_IMODE(status.st_mode) & needed != needed:
            return path
    return None


def readable_source(source: Path, owner: tuple[int, int] | None) -> tuple[Path, str]:
    """A path with the content of ``source`` that ``owner`` can read, and a note when it is a copy.

    ``owner`` None means the caller's own user, who needs no copy.

    Raises:
        EnvironmentBroken: it is too large to copy, or the caller cannot read it either.
    """
    blocked = first_unreadable(source, owner) if owner is not None else None
    if blocked is None:
        return source, ""
    note = f"{blocked} is not readable for the sandbox's user; a readable copy of {source} is used"
    fingerprint, size = _fingerprint(source)
    if size > MAX_COPY_BYTES:
        raise EnvironmentBroken(
            f"{blocked} is not readable for the sandbox's user, and {source} is too large to copy "
            f"({size >> 20} MiB)",
            hint=f"chmod -R go+rX {source}",
        )
    place = cache_directory() / "readable" / fingerprint
    if not place.exists():
        _copy(source, place)
    return place / source.name, note


def _walk(source: Path) -> Iterator[tuple[Path, os.stat_result]]:
    waiting = [source]
    while waiting:
        path = waiting.pop()
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            # Its target is checked where it lies, or is not part of this tree.
            continue
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            waiting += sorted(path.iterdir(), reverse=True)


def _fingerprint(source: Path) -> tuple[str, int]:
    digest = hashlib.sha256(os.fsencode(source))
    total = 0
    try:
        for path, status in _walk(source):
            total += status.st_size
            digest.update(
                f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape")
            )
    except PermissionError as error:
        raise EnvironmentBroken(f"{error.filename} cannot be read", hint="check its permissions") from error
    return digest.hexdigest()[:32], total


def _copy(source: Path, place: Path) -> None:
    """Copies to a temporary neighbour and renames, so that parallel runs never see half a copy."""
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".copying-", dir=place.parent))
    try:
        target = scratch / source.name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
        for path, status in [(scratch, scratch.lstat()), *_walk(target)]:
            executable = stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111
            path.chmod(0o755 if executable else 0o644)
        try:
            scratch.rename(place)
        except OSError:
            # Another run was faster; its copy has the same content by construction of the name.
            if not place.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
