"""What lies below a directory of the workspace, ignored files included, without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..repo.files import open_directory

__all__ = ["Entry", "walk"]

Kind = Literal["file", "directory", "link", "special"]
MAX_ENTRIES = 200_000
MAX_DEPTH = 64


@dataclass(frozen=True)
class Entry:
    """One thing in the tree."""

    path: str
    kind: Kind
    size: int
    """Bytes of a file; 0 for others."""
    modified_ns: int
    ignored: bool
    """Neither tracked nor new: git leaves it out."""
    target: str = ""
    """Where a link points."""


def walk(
    root: Path,
    start: str,
    known: Collection[str],
    enter: Callable[[str, int, bool], bool],
) -> Iterator[Entry]:
    """Entries below ``start`` ("." is the top), directories before what is in them, sorted by name.

    Args:
        known: tracked and new files, as ``Workspace.files`` gives them.
        enter: (path, depth from 1, ignored) -> whether to go into that directory.
    """
    alive: set[str] = set()
    for path in known:
        parent = path.rpartition("/")[0]
        while parent and parent not in alive:
            alive.add(parent)
            parent = parent.rpartition("/")[0]
    files = set(known)
    left = MAX_ENTRIES
    stack: list[tuple[str, int]] = [("" if start == "." else start, 0)]
    pending: list[Entry] = []
    while stack or pending:
        if pending:
            entry = pending.pop()
            yield entry
            left -= 1
            if left <= 0:
                return
            depth = entry.path.count("/") - (0 if start == "." else start.count("/") + 1) + 1
            if entry.kind == "directory" and depth < MAX_DEPTH and enter(entry.path, depth, entry.ignored):
                stack.append((entry.path, depth))
            else:
                continue
        directory, _ = stack.pop()
        pending += reversed(_entries(root, directory, files, alive))


def _entries(root: Path, directory: str, files: set[str], alive: set[str]) -> list[Entry]:
    found: list[Entry] = []
    try:
        descriptor = open_directory(root, directory or ".")
    except OSError:
        return found
    prefix = f"{directory}/" if directory else ""
    try:
        with os.scandir(descriptor) as scanned:
            for item in scanned:
                if item.name.lower() == ".git":
                    continue
                try:
                    details = item.stat(follow_symlinks=False)
                    is_link = stat.S_ISLNK(details.st_mode)
                    target = os.readlink(item.name, dir_fd=descriptor) if is_link else ""
                except OSError:
                    continue
                path = prefix + item.name
                kind = _kind(details.st_mode)
                ignored = path not in (alive if kind == "directory" else files)
                size = details.st_size if kind == "file" else 0
                found.append(Entry(path, kind, size, details.st_mtime_ns, ignored, target))
    finally:
        os.close(descriptor)
    return sorted(found, key=lambda entry: entry.path)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "special"
