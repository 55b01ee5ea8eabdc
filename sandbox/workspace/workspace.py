"""The copy of a repository that the agent works on, with snapshots and the patch."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..base.errors import RepositoryError, ToolError
from ..protocol import Mount
from .descriptors import remove_tree
from .making import BaseState, make_parts
from .names import is_git_internal, is_test_path
from .recorder import Recorder
from .safe_tree import SafeTree
from .source import open_source
from .start_tree import StartTree
from .store import Store
from .unrecorded import Unrecorded

_TREE = re.compile(r"^[0-9a-f]{40}([0-9a-f]{24})?$")
_T = TypeVar("_T")


@dataclass(frozen=True)
class ChangedFile:
    """A path that differs between two snapshots; status A, M, D, R (the new path) or T (type changed)."""

    path: str
    status: str
    is_test: bool


class Workspace:
    """A copy of a repository (implements ``SnapshotStore``). Made by ``create``, removed by ``destroy``.

    The copy may be changed by hostile processes at any time; nothing here follows their
    links, waits on their pipes or runs git with their configuration.
    """

    def __init__(
        self,
        root: Path,
        base: BaseState,
        tree: SafeTree,
        store: Store,
        recorder: Recorder,
        mounts: tuple[Mount, ...],
        unrecorded: Unrecorded,
    ) -> None:
        self.root = root
        self.base = base
        self._tree = tree
        self._store = store
        self._recorder = recorder
        self._mounts = mounts
        self._unrecorded = unrecorded
        self._lock = threading.Lock()

    @classmethod
    async def create(
        cls,
        repository: Path,
        run_dir: Path,
        *,
        revision: str | None = None,
        owner: tuple[int, int] | None = None,
        extra_paths: Sequence[str] = (),
        objects_inside: str | None = None,
        index_file: Path | None = None,
        start: StartTree | None = None,
    ) -> Workspace:
        """Copies the repository into ``run_dir`` without touching the original.

        Args:
            repository: a directory of the working tree.
            revision: copy this commit instead of the working tree's present state.
            owner: (uid, gid) the copy belongs to; needs root.
            extra_paths: ignored build outputs (paths or globs) to copy too; never in a patch.
            objects_inside: where an isolating sandbox shows the user's git objects; they are
                then listed by ``mounts``. None: the copy's ``.git`` points to their real place.
            index_file: the index to read instead of the repository's (git hooks).
            start: copy this tree instead of the working tree's present state (git hooks).

        Raises:
            RepositoryError: bare, unreadable, or not a repository.
            UsageError: ``revision`` names no commit, or an extra path leads outside.
        """
        return await asyncio.to_thread(
            _create,
            repository,
            run_dir,
            start or revision,
            owner,
            tuple(extra_paths),
            objects_inside,
            index_file,
        )

    def mounts(self) -> tuple[Mount, ...]:
        """What an isolating sandbox must show for ``git`` inside the copy to work."""
        return self._mounts

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the start and everything unusual met since (pipes, unreadable files, huge files)."""
        return (*self.base.notes, *self._recorder.notes)

    async def snapshot(self) -> str:
        """Records tracked and new, not ignored files; returns the tree hash."""
        return await self._serially(self._recorder.snapshot)

    async def restore(self, tree: str) -> None:
        """Puts the copy back to a recorded tree; ignored files stay as they are.

        Raises:
            ToolError: no such snapshot, or the copy cannot be written.
        """
        await self._serially(lambda: self._recorder.restore(tree))

    async def diff(
        self, start: str | None = None, end: str | None = None, *, paths: Sequence[str] = ()
    ) -> bytes:
        """The patch between two trees (default: from the base to now), as ``git diff --binary`` writes it."""
        return await self._serially(lambda: self._store.diff(*self._range(start, end), tuple(paths)))

    async def changed_files(
        self, start: str | None = None, end: str | None = None, *, renames: bool = True
    ) -> tuple[ChangedFile, ...]:
        """Paths that differ between two trees (default: from the base to now).

        Without ``renames`` a renamed file is two: its old path D, its new one A.
        """

        def listed() -> tuple[ChangedFile, ...]:
            changes = self._store.changes(*self._range(start, end), renames=renames)
            return tuple(
                ChangedFile(change.path, change.status, is_test_path(change.path)) for change in changes
            )

        return await self._serially(listed)

    async def files(self) -> tuple[str, ...]:
        """Tracked and new, not ignored files and links as they are now, sorted."""

        def listed() -> tuple[str, ...]:
            self._recorder.snapshot()
            return tuple(sorted(self._store.entries()))

        return await self._serially(listed)

    async def recorded(self, tree: str, path: str) -> bytes:
        """Content of one file in a recorded tree (line ends as git stores them).

        Raises:
            ToolError: the tree or the file is not there.
        """

        def content() -> bytes:
            self._store.require(tree)
            try:
                return self._store.blob(tree, path)
            except RepositoryError as error:
                raise ToolError(f"{path} is not in snapshot {tree[:12]}") from error

        return await self._serially(content)

    async def restore_paths(self, tree: str, paths: Sequence[str]) -> None:
        """Puts only some paths back to a recorded tree (removes those it does not have).

        Raises:
            ToolError: no such snapshot, or the copy cannot be written.
        """

        def mixed() -> None:
            self._store.require(tree)
            now = self._recorder.snapshot()
            self._recorder.restore(self._store.mixed_tree(now, tree, tuple(paths)))

        await self._serially(mixed)

    async def mark_unrecorded(self) -> None:
        """Remembers the files no snapshot holds (ignored ones, build outputs, ``.git``) as they are now."""

        def mark() -> None:
            self._recorder.snapshot()
            self._unrecorded.mark(self._store.entries())

        await self._serially(mark)

    async def reset_unrecorded(self) -> tuple[str, ...]:
        """Puts those files back to the mark and removes new ones; returns what could not be put back."""

        def reset() -> tuple[str, ...]:
            self._recorder.snapshot()
            return self._unrecorded.reset(self._store.entries())

        return await self._serially(reset)

    async def patch_applies(self, patch: bytes) -> bool:
        """Whether a patch applies to a clean checkout of the base tree."""
        return await self._serially(lambda: self._store.applies(patch, self.base.tree))

    async def patched(
        self, tree: str, patch: bytes, *, reverse: bool = False, three_way: bool = False
    ) -> str | None:
        """Records ``tree`` with a patch applied or taken back, to be restored; None when it does not fit.

        ``three_way``: also where lines around have changed, as long as nothing conflicts.
        """

        def made() -> str | None:
            self._store.require(tree)
            return self._store.patched(tree, patch, reverse=reverse, three_way=three_way)

        return await self._serially(made)

    def resolve(self, relative: str) -> Path:
        """The host path of something in the copy.

        Raises:
            ToolError: the path is absolute, leads outside (also through links) or into ``.git``.
        """
        self._check_name(relative)
        path = Path(os.path.normpath(self.root / relative))
        real_root = Path(os.path.realpath(self.root))
        real = Path(os.path.realpath(path))
        if real != real_root and real_root not in real.parents:
            raise ToolError(f"{relative} leads outside the repository through a symbolic link")
        if is_git_internal(real.relative_to(real_root).as_posix()):
            raise ToolError(f"{relative} leads into .git, which is off limits")
        return path

    def read(self, relative: str, *, max_bytes: int = 256 << 20) -> bytes:
        """Content of a regular file of the copy; follows no links and waits for no pipe.

        Raises:
            ToolError: a bad path, no regular file there, or more than ``max_bytes``.
        """
        self._check_name(relative)
        try:
            data = self._tree.read(os.path.normpath(relative), max_bytes + 1)
        except OSError as error:
            raise ToolError(f"{relative} cannot be read: {error.strerror or error}") from error
        if len(data) > max_bytes:
            raise ToolError(f"{relative} cannot be read whole: it has more than {max_bytes} bytes")
        return data

    def write(self, relative: str, data: bytes, *, executable: bool = False) -> None:
        """Writes a file of the copy atomically, for its owner; keeps the mode; follows no links.

        Raises:
            ToolError: a bad path, a directory in the way, or a full disk.
        """
        self._check_name(relative)
        try:
            self._tree.write(os.path.normpath(relative), data, executable=executable)
        except OSError as error:
            raise ToolError(f"{relative} cannot be written: {error.strerror or error}") from error

    def remove(self, relative: str) -> None:
        """Removes a regular file of the copy, and directories that became empty; follows no links.

        Raises:
            ToolError: a bad path, no regular file there, or it cannot be removed.
        """
        self._check_name(relative)
        path = os.path.normpath(relative)
        try:
            if not stat.S_ISREG(self._tree.stat(path).st_mode):
                raise ToolError(f"{relative} is not a regular file")
            self._tree.remove(path)
        except OSError as error:
            raise ToolError(f"{relative} cannot be removed: {error.strerror or error}") from error

    def is_executable(self, relative: str) -> bool:
        """Whether a file of the copy is there and has its owner's executable bit."""
        self._check_name(relative)
        try:
            return bool(self._tree.stat(os.path.normpath(relative)).st_mode & 0o100)
        except OSError:
            return False

    @property
    def snapshots_git_dir(self) -> Path:
        """The private git directory of the snapshots: trusted, never seen by what runs in the copy."""
        return self._store.git_dir

    async def destroy(self) -> None:
        """Removes the copy and everything recorded; idempotent."""

        def remove() -> None:
            try:
                remove_tree(self.root.parent)
            finally:
                self._store.destroy()
                self._unrecorded.forget()

        await self._serially(remove)

    def _check_name(self, relative: str) -> None:
        if not relative or "\0" in relative:
            raise ToolError("an empty path or one with a NUL names no file")
        if relative.startswith("/"):
            raise ToolError(f"{relative} is absolute", hint="give a path relative to the repository's top")
        depth = 0
        for part in relative.split("/"):
            depth += -1 if part == ".." else 0 if part in ("", ".") else 1
            if depth < 0:
                raise ToolError(f"{relative} leads outside the repository")
        if is_git_internal(relative):
            raise ToolError(f"{relative} leads into .git, which is off limits")

    def _range(self, start: str | None, end: str | None) -> tuple[str, str]:
        first = start if start is not None else self.base.tree
        last = end if end is not None else self._recorder.snapshot()
        for tree in (first, last):
            if not _TREE.match(tree):
                raise ToolError(f"{tree!r} is not a snapshot")
            self._store.require(tree)
        return first, last

    async def _serially(self, work: Callable[[], _T]) -> _T:
        """Runs blocking work in a thread, one piece at a time (a cancelled caller's piece ends first)."""

        def locked() -> _T:
            with self._lock:
                return work()

        return await asyncio.to_thread(locked)


def _create(
    repository: Path,
    run_dir: Path,
    wanted: StartTree | str | None,
    owner: tuple[int, int] | None,
    extra_paths: tuple[str, ...],
    objects_inside: str | None,
    index_file: Path | None,
) -> Workspace:
    source = open_source(repository, wanted.git_dir if isinstance(wanted, StartTree) else None)
    private = run_dir / "snapshots"
    # The copy keeps the repository's name: some projects read the name of their directory.
    root = run_dir / "workspace" / (source.top.name or "repository")
    try:
        private.mkdir(parents=True, mode=0o700)
        root.mkdir(parents=True)
        parts = make_parts(
            source, root, private, run_dir, wanted, owner, extra_paths, objects_inside, index_file
        )
    except BaseException:
        # Nothing half-made stays behind.
        remove_tree(root.parent)
        shutil.rmtree(private, ignore_errors=True)
        raise
    return Workspace(
        root, parts.base, parts.tree, parts.store, parts.recorder, parts.mounts, parts.unrecorded
    )
