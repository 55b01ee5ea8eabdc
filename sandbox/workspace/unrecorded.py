"""The files of the copy that no snapshot holds: build outputs, ignored files, tool litter, ``.git``.

A patch cannot contain them, so what happens to them must not take part in a proof.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Container
from pathlib import Path

from .safe_tree import SafeTree

MAX_KEPT_FILE_BYTES = 128 << 20
MAX_KEPT_BYTES = 512 << 20

_Signature = tuple[int, int, int, int, int]


def _signature(details: os.stat_result) -> _Signature:
    # The time of the last status change cannot be set back by whoever rewrites a file.
    return (details.st_mode, details.st_size, details.st_mtime_ns, details.st_ctime_ns, details.st_ino)


class Unrecorded:
    """Remembers such files at one moment and puts them back to it.

    Args:
        tree: the copy.
        store: a directory of our own for their content; made when needed.
    """

    def __init__(self, tree: SafeTree, store: Path) -> None:
        self._tree = tree
        self._store = store
        self._marks: dict[str, _Signature] | None = None
        self._kept: dict[str, Path] = {}
        self._directories: tuple[str, ...] = ()

    def mark(self, recorded: Container[str]) -> None:
        """Takes the present state for the one to go back to."""
        shutil.rmtree(self._store, ignore_errors=True)
        self._store.mkdir(mode=0o700, parents=True)
        self._marks, self._kept = {}, {}
        total = 0
        found, self._directories = self._found(recorded)
        for path, details in found.items():
            self._marks[path] = _signature(details)
            if details.st_size > MAX_KEPT_FILE_BYTES or total + details.st_size > MAX_KEPT_BYTES:
                continue
            kept = self._store / str(len(self._kept))
            try:
                self._tree.copy_out(path, kept, MAX_KEPT_FILE_BYTES)
            except OSError:
                # Unreadable for us: should it change, it is reported as not put back.
                continue
            self._kept[path] = kept
            total += details.st_size

    def reset(self, recorded: Container[str]) -> tuple[str, ...]:
        """Removes what has appeared since ``mark`` and puts back what has changed.

        Returns the paths that differ still: too large to have been kept, or not writable.
        Does nothing when there was no mark.
        """
        if self._marks is None:
            return ()
        left: list[str] = []
        found, _ = self._found(recorded)
        for path, details in found.items():
            mark = self._marks.get(path)
            if mark == _signature(details):
                continue
            try:
                if mark is None:
                    self._tree.remove(path)
                elif path in self._kept:
                    self._put_back(path)
                else:
                    left.append(path)
            except OSError:
                left.append(path)
        for path in self._marks:
            if path in found or path in recorded:
                continue
            try:
                if path in self._kept:
                    self._put_back(path)
                else:
                    left.append(path)
            except OSError:
                left.append(path)
        for path in self._directories:
            # Removing the last file of a directory removes that too, but git needs its empty ones.
            with contextlib.suppress(OSError), self._tree.directory(path, create=True):
                pass
        return tuple(sorted(left))

    def forget(self) -> None:
        """Removes everything kept."""
        shutil.rmtree(self._store, ignore_errors=True)
        self._marks, self._kept = None, {}

    def _put_back(self, path: str) -> None:
        details = self._tree.copy_in(self._kept[path], path, keep_times=True)
        if self._marks is not None:
            self._marks[path] = _signature(details)

    def _found(self, recorded: Container[str]) -> tuple[dict[str, os.stat_result], tuple[str, ...]]:
        """Files no snapshot holds, and all directories."""
        directories: list[str] = []

        def enter(path: str) -> bool:
            directories.append(path)
            return True

        scan = self._tree.scan([""], enter)
        files = {path: details for path, details in scan.files.items() if path not in recorded}
        return files, tuple(directories)
