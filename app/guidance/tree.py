"""Where steering files are read from: the working tree, or a commit that a pull request cannot change.

Paths are repository-relative with forward slashes. Links are followed only while they stay
inside the repository; a path that leads out is refused, whatever it points at.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ...sandbox.base.errors import ToolError, WhimbrelError
from ...sandbox.base.git import Git
from ..repo.files import open_directory, read_regular

MAX_BYTES = 64 << 10
"""Of one file; longer ones are not read at all."""
MAX_LISTED = 400
_MAX_LINKS = 8


class Refused(WhimbrelError):
    """A path that leads out of the repository, or a file that is too large."""


class Tree(Protocol):
    """Files of a repository at one state."""

    name: str
    """For people: ``the working tree`` or ``main at 1a2b3c4``."""

    async def read(self, path: str) -> bytes | None:
        """The bytes of a regular file, None when there is none. Raises Refused."""
        ...

    async def list(self, folder: str) -> tuple[str, ...]:
        """Paths of all regular files below a folder, sorted; at most MAX_LISTED."""
        ...


def inside(path: str, *, relative_to: str = "") -> str:
    """``path`` (as written in a file of the folder ``relative_to``) as a clean repository path.

    Raises:
        Refused: it is absolute, starts at a home, or leads out of the repository.
    """
    if path.startswith(("/", "~", "\\")) or "\0" in path or (len(path) > 1 and path[1] == ":"):
        raise Refused(f"{path} lies outside the repository")
    clean = posixpath.normpath(posixpath.join(relative_to, path))
    if clean == ".." or clean.startswith("../") or clean == ".":
        raise Refused(f"{path} lies outside the repository")
    if any(part.lower() == ".git" for part in clean.split("/")):
        raise Refused(f"{path} lies in git's own folder")
    return clean


class WorkingTree:
    """The files as they lie on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = "the working tree"

    async def read(self, path: str) -> bytes | None:
        path = inside(path)
        for _ in range(_MAX_LINKS):
            try:
                data = read_regular(self.root, path, MAX_BYTES)
            except ToolError:
                target = _link_target(self.root, path)
                if target is None:
                    return None
                path = inside(target, relative_to=posixpath.dirname(path))
                continue
            except OSError:
                # Missing, unreadable, or below a folder that is a link: nothing is said there.
                return None
            if data is None:
                raise Refused(f"{path} is larger than {MAX_BYTES >> 10} KiB")
            return data
        raise Refused(f"{path} is a chain of links")

    async def list(self, folder: str) -> tuple[str, ...]:
        found: list[str] = []
        for path in self._walk(folder, 0):
            found.append(path)
            if len(found) >= MAX_LISTED:
                break
        return tuple(sorted(found))

    def _walk(self, folder: str, depth: int) -> Iterator[str]:
        try:
            descriptor = open_directory(self.root, folder)
        except OSError:
            return
        try:
            entries = sorted(os.listdir(descriptor))  # noqa: PTH208 - of a descriptor: no link can be put in its place
            kinds = {
                name: os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode for name in entries
            }
        except OSError:
            return
        finally:
            os.close(descriptor)
        for name, mode in kinds.items():
            if stat.S_ISREG(mode):
                yield f"{folder}/{name}"
            elif stat.S_ISDIR(mode) and depth < 4:
                yield from self._walk(f"{folder}/{name}", depth + 1)


class CommitTree:
    """The files of one commit."""

    def __init__(self, repository: Path, commit: str, name: str = "") -> None:
        self.commit = commit
        self.name = name or f"commit {commit[:10]}"
        self._git = Git(None, repository)

    async def read(self, path: str) -> bytes | None:
        path = inside(path)
        for _ in range(_MAX_LINKS):
            listed = await self._git.run(
                "ls-tree", "-z", self.commit, "--", f":(literal,top){path}", check=False
            )
            entry = next(iter(listed.fields()), "")
            if listed.exit_code != 0 or not entry:
                return None
            mode, kind, blob = entry.partition("\t")[0].split(" ")
            if kind != "blob":
                return None
            size = await self._git.run("cat-file", "-s", blob)
            if int(size.text()) > MAX_BYTES:
                raise Refused(f"{path} is larger than {MAX_BYTES >> 10} KiB")
            data = (await self._git.run("cat-file", "blob", blob)).stdout
            if mode != "120000":
                return data
            path = inside(os.fsdecode(data), relative_to=posixpath.dirname(path))
        raise Refused(f"{path} is a chain of links")

    async def list(self, folder: str) -> tuple[str, ...]:
        listed = await self._git.run(
            "ls-tree", "-r", "-z", self.commit, "--", f":(literal,top){folder}/", check=False
        )
        if listed.exit_code != 0:
            return ()
        entries = (entry.partition("\t") for entry in listed.fields())
        return tuple(sorted(path for head, _, path in entries if head.startswith("100")))[:MAX_LISTED]


def _link_target(root: Path, path: str) -> str | None:
    try:
        parent = open_directory(root, posixpath.dirname(path))
    except OSError:
        return None
    try:
        return os.readlink(posixpath.basename(path), dir_fd=parent)
    except OSError:
        return None
    finally:
        os.close(parent)
