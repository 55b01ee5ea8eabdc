"""A read-only view of the history in the workspace copy, for git on the host.

What runs in the sandbox can plant configuration, hooks, filters and alternates in the
copy's ``.git``; so git is never pointed at it. The view is a git directory of our own:
our configuration, the snapshots' objects (which know the user's), and from the copy only
plain data, read without following links: HEAD, branches, tags, and new objects.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from ...sandbox.base.errors import RepositoryError, ToolError
from ...sandbox.base.files import atomic_write
from ...sandbox.base.git import Git
from ...sandbox.workspace import Workspace
from .files import open_directory, read_regular

__all__ = ["HistoryView"]

_OBJECT = re.compile(r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")
_REF_LINE = re.compile(rb"^([0-9a-f]{40,64}) (refs/(?:heads|tags|remotes)/[^\0\n ~^:?*\[\\]+)$")
_SYMBOLIC = re.compile(rb"^ref: (refs/heads/[^\0\n ~^:?*\[\\]+)\s*$")
_MAX_REFS = 16 << 20
_MAX_OBJECT = 64 << 20
MAX_NEW_BYTES = 256 << 20
"""Of objects made inside that are taken over; beyond that the view says so."""


class HistoryView:
    """Made once per run; ``refresh`` before each question. All methods block."""

    def __init__(self, workspace: Workspace, directory: Path) -> None:
        self._root = workspace.root
        self._trusted = workspace.snapshots_git_dir
        self._directory = directory
        self._taken: set[str] = set()
        self._bytes = 0
        self.incomplete = False
        """Objects made inside are missing here: too many or too large."""

    @property
    def git(self) -> Git:
        """Read-only in effect: nothing in the view's configuration runs or writes anything."""
        empty = self._directory / "empty"
        return Git(
            self._directory / "view.git",
            empty,
            extra_env={"GIT_LITERAL_PATHSPECS": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"},
            config={"core.bare": "false", "log.showSignature": "false", "core.commentChar": "#"},
            user_config=False,
        )

    def refresh(self) -> None:
        """Takes over what has changed in the copy.

        Raises:
            ToolError: the copy's ``.git`` is not what it was made as.
        """
        view = self._directory / "view.git"
        if not view.is_dir():
            for part in ("objects/info", "objects/pack", "refs/heads", "info"):
                (view / part).mkdir(parents=True)
            (self._directory / "empty").mkdir()
            (view / "config").write_bytes((self._trusted / "config").read_bytes())
            alternate = os.fsencode(self._trusted / "objects")
            (view / "objects" / "info" / "alternates").write_bytes(alternate + b"\n")
        head = self._read("HEAD", 4096)
        if head is None:
            raise ToolError("the copy has no .git/HEAD any more", hint="restore it, or go on without git")
        symbolic = _SYMBOLIC.match(head)
        plain = head.strip().decode("ascii", "replace")
        if symbolic is None and not _OBJECT.match(plain):
            raise ToolError("the copy's .git/HEAD names neither a branch nor a commit")
        refs = self._refs()
        if self._shallow():
            (view / "shallow").write_bytes(self._shallow())
        lines = [oid + b" " + name + b"\n" for name, oid in sorted(refs.items())]
        atomic_write(view / "packed-refs", b"".join(lines))
        atomic_write(view / "HEAD", b"ref: " + symbolic[1] + b"\n" if symbolic else plain.encode() + b"\n")
        self._take_objects(view)

    def branch(self) -> str | None:
        """The branch that is checked out in the copy, or None when none is."""
        result = self.git.run_sync("symbolic-ref", "--short", "-q", "HEAD", check=False)
        return result.text() or None

    def commit(self, revision: str) -> str | None:
        """The full object id of a commit, or None when there is none of that name."""
        spec = f"{revision}^{{commit}}"
        result = self.git.run_sync("rev-parse", "--verify", "--quiet", "--end-of-options", spec, check=False)
        return result.text().strip() or None if result.exit_code == 0 else None

    def _read(self, name: str, limit: int) -> bytes | None:
        try:
            return read_regular(self._root, f".git/{name}", limit)
        except (OSError, ToolError):
            return None

    def _shallow(self) -> bytes:
        data = self._read("shallow", _MAX_REFS) or b""
        return b"".join(
            line + b"\n" for line in data.split() if _OBJECT.match(line.decode("ascii", "replace"))
        )

    def _refs(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for line in (self._read("packed-refs", _MAX_REFS) or b"").splitlines():
            match = _REF_LINE.match(line)
            if match:
                found[match[2]] = match[1]
        for kind in ("heads", "tags", "remotes"):
            for path, _ in self._files(f"refs/{kind}", 8):
                match = _REF_LINE.match((self._read(path, 4096) or b"").strip() + b" " + os.fsencode(path))
                if match:
                    found[match[2]] = match[1]
        return found

    def _files(self, directory: str, depth: int) -> Iterator[tuple[str, int]]:
        """(path below .git, size) of regular files; at most 100,000."""
        left = 100_000
        stack = [(directory, depth)]
        while stack and left > 0:
            current, levels = stack.pop()
            try:
                descriptor = open_directory(self._root, f".git/{current}")
            except OSError:
                continue
            try:
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        left -= 1
                        with contextlib.suppress(OSError):
                            details = entry.stat(follow_symlinks=False)
                            if stat.S_ISDIR(details.st_mode) and levels > 1:
                                stack.append((f"{current}/{entry.name}", levels - 1))
                            elif stat.S_ISREG(details.st_mode):
                                yield f"{current}/{entry.name}", details.st_size
            finally:
                os.close(descriptor)

    def _take_objects(self, view: Path) -> None:
        """Copies new loose objects and packs; they are data, and what they say is the copy's own word."""
        for path, size in self._files("objects", 2):
            name = path.removeprefix("objects/")
            loose = re.match(r"^[0-9a-f]{2}/[0-9a-f]{38}(?:[0-9a-f]{24})?$", name)
            if name in self._taken or not (loose or re.match(r"^pack/pack-[0-9a-f]+\.(?:pack|idx)$", name)):
                continue
            self._taken.add(name)
            if size > _MAX_OBJECT or self._bytes + size > MAX_NEW_BYTES:
                self.incomplete = True
                continue
            data = self._read(path, _MAX_OBJECT)
            if data is None:
                continue
            self._bytes += len(data)
            target = view / "objects" / name
            target.parent.mkdir(exist_ok=True)
            atomic_write(target, data, mode=0o444)

    def tree_of(self, revision: str) -> str:
        """The tree of a commit. Raises RepositoryError."""
        return (
            self.git.run_sync("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")
            .text()
            .strip()
        )

    def first_line(self, commit: str) -> str:
        """Short id and subject of a commit."""
        with contextlib.suppress(RepositoryError):
            return self.git.run_sync("log", "-1", "--no-color", "--format=%h %s", commit, "--").text()
        return commit[:12]
