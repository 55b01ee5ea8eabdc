"""Single steps on directory descriptors that never follow links, and the removal of whole trees."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_CHUNK = 1 << 22


def remove_tree(path: Path) -> None:
    """Removes a directory wholly, also read-only and unreadable parts, never through links."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        remove_entry(parent, path.name)
    finally:
        os.close(parent)


def copy_content(source: int, target: int, max_bytes: int | None = None) -> None:
    """Copies from one descriptor to another to the end, in the kernel where it can."""
    if max_bytes is not None:
        # Sparse files cost the one who made them nothing: look at the size before writing it out.
        if os.fstat(source).st_size > max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        copied = 0
        while data := os.read(source, _COPY_CHUNK):
            copied += len(data)
            if copied > max_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            write_all(target, data)
        return
    try:
        while os.copy_file_range(source, target, _COPY_CHUNK):
            pass
    except (OSError, AttributeError) as error:
        usual = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
        if isinstance(error, OSError) and error.errno not in usual:
            raise
        while data := os.read(source, _COPY_CHUNK):
            write_all(target, data)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def open_directory(parent: int, name: str) -> int:
    try:
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except PermissionError:
        make_accessible(parent, name, 0o700)
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    return descriptor


def make_accessible(parent: int, name: str, bits: int) -> None:
    """Gives ourselves ``bits`` on something of ours; through a descriptor, so that no link is followed."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        details = os.fstat(handle)
        if stat.S_ISREG(details.st_mode) or stat.S_ISDIR(details.st_mode):
            Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(details.st_mode) | bits)
    finally:
        os.close(handle)


def remove_entry(parent: int, name: str) -> None:
    """Removes ``name`` below ``parent`` whatever it is; iteratively, as trees can be very deep."""
    try:
        unlink_entry(parent, name)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError) as error:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise error
    # Deep trees: move inner directories up instead of holding one descriptor per level.
    top = open_directory(parent, name)
    try:
        make_writable(top)
        while True:
            directories: list[str] = []
            with os.scandir(top) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    else:
                        unlink_entry(top, entry.name)
            if not directories:
                break
            for inner in directories:
                _hoist_children(top, inner)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _hoist_children(top: int, name: str) -> None:
    """Empties the directory ``name`` by unlinking its files and moving its directories up into ``top``."""
    inner = open_directory(top, name)
    try:
        make_writable(inner)
        with os.scandir(inner) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # Moving a directory rewrites its "..", which needs write access to it.
                    with contextlib.suppress(OSError):
                        make_accessible(inner, entry.name, 0o700)
                    fresh = f".{os.urandom(8).hex()}"
                    os.rename(entry.name, fresh, src_dir_fd=inner, dst_dir_fd=top)
                else:
                    unlink_entry(inner, entry.name)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def unlink_entry(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except PermissionError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            make_writable(parent)
            os.unlink(name, dir_fd=parent)
        else:
            raise


def make_writable(directory: int) -> None:
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & 0o700 != 0o700:
        with contextlib.suppress(PermissionError):
            os.fchmod(directory, mode | 0o700)
