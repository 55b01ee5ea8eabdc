"""File access below one directory that a hostile process may be changing at the same time.

Every step goes through directory descriptors opened without following links, so no
link, rename or special file planted below the root makes the host read or write
outside it, and no pipe or device makes it wait. Paths are relative, "/"-separated
strings; bytes that are not UTF-8 are surrogate escapes (``os.fsdecode``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .descriptors import (
    DIRECTORY_FLAGS,
    copy_content,
    make_accessible,
    make_writable,
    open_directory,
    remove_entry,
    write_all,
)

MAX_DEPTH = 256
MAX_PATH_BYTES = 3000
"""Leaves room for a prefix and a name within the system's 4096."""
MAX_ENTRIES = 2_000_000

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass
class Scan:
    """What a scan saw. Paths -> lstat results; ``undecided`` are directories it did not enter."""

    files: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    undecided: list[str] = field(default_factory=list[str])
    special: list[str] = field(default_factory=list[str])
    """Pipes, sockets and devices."""
    unreadable: list[str] = field(default_factory=list[str])
    """Directories that could not be entered or are nested too deep."""

    def add(self, other: Scan) -> None:
        """Takes in what another scan saw."""
        self.files.update(other.files)
        self.undecided += other.undecided
        self.special += other.special
        self.unreadable += other.unreadable

    def drop_below(self, directories: Collection[str]) -> None:
        """Forgets what lies directly in any of ``directories`` (of which every level is named)."""
        self.files = {
            path: details
            for path, details in self.files.items()
            if path.rpartition("/")[0] not in directories
        }
        for paths in (self.undecided, self.special, self.unreadable):
            paths[:] = [path for path in paths if path.rpartition("/")[0] not in directories]


class SafeTree:
    """The directory ``root`` and safe operations below it. ``owner`` (uid, gid) is given to what it makes."""

    def __init__(self, root: Path, owner: tuple[int, int] | None = None) -> None:
        self._root = root
        self._owner = owner

    def scan(self, starts: list[str], enter: Callable[[str], bool | None]) -> Scan:
        """Lists everything below ``starts`` ("" is the root) without following links.

        ``enter(path)`` says for a directory: True go in, False leave out, None report as undecided.
        """
        result = Scan()
        for start in starts:
            try:
                with self.directory(start) as descriptor:
                    self._scan_into(result, descriptor, start, enter)
            except FileNotFoundError:
                continue
            except OSError:
                result.unreadable.append(start)
        return result

    def _scan_into(
        self, result: Scan, descriptor: int, path: str, enter: Callable[[str], bool | None]
    ) -> None:
        too_long = len(os.fsencode(path)) > MAX_PATH_BYTES
        if path.count("/") >= MAX_DEPTH or too_long or len(result.files) > MAX_ENTRIES:
            result.unreadable.append(path)
            return
        prefix = f"{path}/" if path else ""
        inner: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                try:
                    details = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                kind = stat.S_IFMT(details.st_mode)
                if kind in (stat.S_IFREG, stat.S_IFLNK):
                    result.files[prefix + entry.name] = details
                elif kind == stat.S_IFDIR:
                    inner.append(entry.name)
                else:
                    result.special.append(prefix + entry.name)
        for name in inner:
            decision = enter(prefix + name)
            if decision is None:
                result.undecided.append(prefix + name)
            elif decision:
                try:
                    child = open_directory(descriptor, name)
                except FileNotFoundError:
                    continue
                except OSError:
                    result.unreadable.append(prefix + name)
                    continue
                try:
                    self._scan_into(result, child, prefix + name, enter)
                finally:
                    os.close(child)

    @contextmanager
    def directory(self, path: str, *, create: bool = False, replace: bool = False) -> Generator[int]:
        """A descriptor of the directory ``path``.

        ``create`` makes missing ones; ``replace`` also removes whatever stands in their way.
        """
        descriptor = os.open(self._root, DIRECTORY_FLAGS)
        try:
            for name in _components(path):
                try:
                    child = open_directory(descriptor, name)
                except OSError as error:
                    in_the_way = error.errno in (errno.ENOTDIR, errno.ELOOP)
                    if not (create and error.errno == errno.ENOENT) and not (replace and in_the_way):
                        raise
                    make_writable(descriptor)
                    if in_the_way:
                        os.unlink(name, dir_fd=descriptor)
                    os.mkdir(name, 0o755, dir_fd=descriptor)
                    self._give(name, descriptor)
                    child = open_directory(descriptor, name)
                os.close(descriptor)
                descriptor = child
            yield descriptor
        finally:
            os.close(descriptor)

    def stat(self, path: str) -> os.stat_result:
        """``lstat`` of one path."""
        parent, name = _split(path)
        with self.directory(parent) as descriptor:
            return os.stat(name, dir_fd=descriptor, follow_symlinks=False)

    def read(self, path: str, max_bytes: int) -> bytes:
        """The first ``max_bytes`` of a regular file. Raises OSError (also for links, pipes, devices)."""
        with self._open_file(path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(max_bytes)

    def link_target(self, path: str) -> bytes:
        """What the symbolic link ``path`` says."""
        parent, name = _split(path)
        with self.directory(parent) as descriptor:
            return os.readlink(os.fsencode(name), dir_fd=descriptor)

    def copy_out(self, path: str, target: Path, max_bytes: int) -> None:
        """Copies a regular file, or a link as a link, to ``target`` outside; keeps the executable bit.

        Raises:
            OSError: also when the file has (or grows to) more than ``max_bytes``.
        """
        details = self.stat(path)
        if stat.S_ISLNK(details.st_mode):
            target.symlink_to(os.fsdecode(self.link_target(path)))
            return
        mode = 0o755 if details.st_mode & 0o100 else 0o644
        with self._open_file(path) as source:
            out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                copy_content(source, out, max_bytes)
                os.fchmod(out, mode)
            finally:
                os.close(out)

    def copy_in(self, source: Path, path: str, *, keep_times: bool = False) -> os.stat_result:
        """Puts a regular file or link from outside at ``path``, whatever is there; returns its lstat."""
        parent, name = _split(path)
        details = source.lstat()
        with self.directory(parent, create=True, replace=True) as descriptor:
            make_writable(descriptor)
            remove_entry(descriptor, name)
            if stat.S_ISLNK(details.st_mode):
                os.symlink(os.fspath(source.readlink()), name, dir_fd=descriptor)
                self._give(name, descriptor)
            else:
                given = os.open(source, _READ)
                try:
                    self._fill(
                        descriptor, name, lambda out: copy_content(given, out), details.st_mode & 0o777
                    )
                finally:
                    os.close(given)
            if keep_times:
                os.utime(
                    name,
                    ns=(details.st_atime_ns, details.st_mtime_ns),
                    dir_fd=descriptor,
                    follow_symlinks=False,
                )
            return os.stat(name, dir_fd=descriptor, follow_symlinks=False)

    def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Replaces or makes the regular file ``path`` atomically, keeping an existing file's mode."""
        parent, name = _split(path)
        with self.directory(parent, create=True) as descriptor:
            make_writable(descriptor)
            mode = 0o755 if executable else 0o644
            with contextlib.suppress(FileNotFoundError):
                before = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(before.st_mode):
                    raise IsADirectoryError(errno.EISDIR, "is a directory", path)
                if not stat.S_ISREG(before.st_mode):
                    raise OSError(errno.EINVAL, "is a link or special file", path)
                mode = stat.S_IMODE(before.st_mode) | (0o111 if executable else 0)
            temporary = f".{os.urandom(8).hex()}.tmp"
            try:
                self._fill(descriptor, temporary, lambda out: write_all(out, data), mode)
                os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=descriptor)
                raise

    def remove(self, path: str) -> None:
        """Removes a file, link or whole directory, and parents that became empty."""
        parent, name = _split(path)
        while True:
            try:
                with self.directory(parent) as descriptor:
                    make_writable(descriptor)
                    remove_entry(descriptor, name)
            except (FileNotFoundError, NotADirectoryError):
                pass
            if not parent:
                return
            path = parent
            parent, name = _split(path)
            try:
                with self.directory(parent) as descriptor:
                    os.rmdir(name, dir_fd=descriptor)
            except OSError:
                return

    def set_executable(self, path: str, executable: bool) -> os.stat_result:
        """Switches the executable bits of a regular file and returns its lstat."""
        with self._open_file(path) as descriptor:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, mode | 0o111 if executable else mode & ~0o111)
            return os.fstat(descriptor)

    @contextmanager
    def _open_file(self, path: str) -> Generator[int]:
        parent, name = _split(path)
        with self.directory(parent) as directory:
            try:
                descriptor = os.open(name, _READ, dir_fd=directory)
            except PermissionError:
                make_accessible(directory, name, 0o400)
                descriptor = os.open(name, _READ, dir_fd=directory)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "is not a regular file", path)
                yield descriptor
            finally:
                os.close(descriptor)

    def _fill(self, directory: int, name: str, fill: Callable[[int], None], mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        out = os.open(name, flags, 0o600, dir_fd=directory)
        try:
            fill(out)
            if self._owner is not None:
                os.fchown(out, *self._owner)
            os.fchmod(out, mode | 0o600)
        finally:
            os.close(out)

    def _give(self, name: str, directory: int) -> None:
        if self._owner is not None:
            os.chown(name, *self._owner, dir_fd=directory, follow_symlinks=False)


def _components(path: str) -> list[str]:
    if not path:
        return []
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise OSError(errno.EINVAL, "is not a plain relative path", path)
    return names


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "is not a plain relative path", path)
    return parent, name
