"""Reading and writing files of the sandbox without being led astray by what runs inside.

A process inside may plant symbolic links at any moment, so nothing on the host is opened
through one: what holds no link is read on the host, the rest is done inside the container.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
from pathlib import Path, PurePosixPath

from ..base.errors import ToolError
from .container import Container

MAX_BYTES = 64 << 20


class SandboxFiles:
    """Files of one container."""

    def __init__(self, container: Container, workspace: Path, workdir: str) -> None:
        self._container = container
        self._workspace = workspace
        self._workdir = PurePosixPath(workdir)

    def absolute(self, path: str) -> PurePosixPath:
        """The path inside, relative ones taken from the working directory, ``..`` resolved by name."""
        if "\0" in path:
            raise ToolError("a path cannot hold a NUL byte")
        return PurePosixPath(os.path.normpath(self._workdir / path))

    async def read(self, path: str) -> bytes:
        """Raises FileNotFoundError, IsADirectoryError, PermissionError; ToolError beyond 64 MiB."""
        inside = self.absolute(path)
        if inside.is_relative_to(self._workdir):
            relative = inside.relative_to(self._workdir)
            found = await asyncio.to_thread(read_without_links, self._workspace, relative, MAX_BYTES)
            if found is not None:
                return found
        code, data = await self._container.call("read", [str(inside)], limit=MAX_BYTES)
        if code != 0:
            raise _error(code, str(inside), data)
        if len(data) > MAX_BYTES:
            raise _too_large(str(inside))
        return data

    async def write(self, path: str, data: bytes, *, executable: bool) -> None:
        """Writes inside the container, as the sandbox user; whole or not at all."""
        inside = self.absolute(path)
        if not any(inside.is_relative_to(place) for place in (self._workdir, PurePosixPath("/tmp"))):
            raise ToolError(f"{inside} is neither in the workspace nor in /tmp", hint="write there instead")
        if len(data) > MAX_BYTES:
            raise _too_large(str(inside))
        arguments = [str(inside), secrets.token_hex(4), "x" if executable else "-"]
        code, output = await self._container.call("write", arguments, stdin=data)
        if code != 0:
            raise _error(code, str(inside), output)

    async def is_directory(self, path: PurePosixPath) -> bool:
        """Whether commands can start in that directory."""
        code, _ = await self._container.call("enterable", [str(path)])
        return code == 0


def read_without_links(root: Path, relative: PurePosixPath, limit: int) -> bytes | None:
    """Content of a regular file below ``root`` (blocking); None when a symbolic link lies on the way.

    Raises:
        OSError: FileNotFoundError, IsADirectoryError, PermissionError, ...
        ToolError: not a regular file, or larger than ``limit``.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parts = relative.parts
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            # O_NONBLOCK: a pipe planted in place of a file must not hold us.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            try:
                inner = os.open(part, flags if last else flags | os.O_DIRECTORY, dir_fd=descriptor)
            except OSError as error:
                if error.errno == errno.ELOOP or (
                    error.errno == errno.ENOTDIR and _is_link(part, descriptor)
                ):
                    return None
                if error.errno == errno.ENXIO:
                    raise ToolError(f"{relative} is not a regular file") from error
                raise type(error)(error.errno, error.strerror, str(relative)) from error
            os.close(descriptor)
            descriptor = inner
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(relative))
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{relative} is not a regular file")
        if found.st_size > limit:
            raise _too_large(str(relative))
        pieces: list[bytes] = []
        size = 0
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise _too_large(str(relative))
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _is_link(name: str, directory: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode)
    except OSError:
        return False


def _too_large(path: str) -> ToolError:
    return ToolError(f"{path} is larger than {MAX_BYTES >> 20} MiB", hint="read a part of it with a command")


def _error(code: int, path: str, output: bytes) -> OSError | ToolError:
    said = output.decode("utf-8", "replace").strip().splitlines()
    words = said[-1][:200] if said else f"exit code {code}"
    match code:
        case 41:
            return FileNotFoundError(errno.ENOENT, "no such file", path)
        case 42:
            return IsADirectoryError(errno.EISDIR, "is a directory", path)
        case 43:
            return ToolError(f"{path} is not a regular file")
        case 44:
            return PermissionError(errno.EACCES, "permission denied", path)
        case _:
            return ToolError(f"{path} could not be used: {words}")
