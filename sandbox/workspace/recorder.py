"""Keeping the private index in step with the copy: what changed since the last look, and putting it back."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

from ..base.errors import ToolError
from .names import is_git_internal, is_litter
from .safe_tree import SafeTree, Scan
from .source import GITLINK
from .store import Store, TreeChange

MAX_RECORDED_BYTES = 128 << 20
"""Larger new files are not part of snapshots (dumps, data); they stay where they are."""
MAX_TRACKED_BYTES = 512 << 20
"""A recorded file that grew beyond this keeps its last recorded content."""
MAX_ROUND_BYTES = 2 << 30
"""Content looked at by one snapshot (sparse files cost their maker nothing, and us all of it)."""
_SPARSE_FROM_BYTES = 16 << 20
_LOOK_AHEAD = 400
_RESTORE_ROUNDS = 3
_RACY_NS = 50_000_000
_IGNORE_FILE_BYTES = 1 << 20

_Signature = tuple[int, int, int, int, int]


class _Record(NamedTuple):
    """What is known of one path: ``signature`` None means "look again"."""

    mode: str
    blob: str
    signature: _Signature | None


def _signature(details: os.stat_result) -> _Signature | None:
    """Identifies content without reading it; None when the file may change again within one clock tick."""
    if time.time_ns() - max(details.st_mtime_ns, details.st_ctime_ns) < _RACY_NS:
        return None
    return (details.st_mode, details.st_size, details.st_mtime_ns, details.st_ctime_ns, details.st_ino)


def _exact(details: os.stat_result) -> _Signature:
    return (details.st_mode, details.st_size, details.st_mtime_ns, details.st_ctime_ns, details.st_ino)


class Recorder:
    """Not thread-safe; its owner serialises calls.

    Args:
        tree: the copy.
        store: where snapshots go; its index is this object's counterpart.
        extra: paths (files or directories) that are never recorded.
    """

    def __init__(self, tree: SafeTree, store: Store, extra: frozenset[str] = frozenset()) -> None:
        self._tree = tree
        self._store = store
        self._extra = extra
        self._records: dict[str, _Record] = {}
        self._absent: dict[str, tuple[str, str]] = {}
        self._gitlinks: set[str] = set()
        self._pinned: set[str] = set()
        self._always: set[str] = set()
        self._current = ""
        self._directories: set[str] | None = None
        self._entered: dict[str, bool] = {}
        self._ignored_files: dict[str, bool] = {}
        self._ignore_files: dict[str, _Signature] = {}
        self._ahead: list[str] = []
        self._unseen: set[str] = set()
        self._refused: set[str] = set()
        self.notes: dict[str, None] = {}

    def begin(
        self,
        present: Mapping[str, tuple[str, str]],
        absent: Mapping[str, tuple[str, str]],
        pinned: Mapping[str, tuple[str, str]],
    ) -> None:
        """Starts from an index already loaded: files on disk, not on disk, on disk but not looked at."""
        self._records = {path: _Record(mode, blob, None) for path, (mode, blob) in present.items()}
        self._absent = dict(absent)
        self._gitlinks = {path for path, (mode, _) in absent.items() if mode == GITLINK}
        self._pinned = set(pinned)
        self._directories = None
        self._current = self._store.write_tree()

    def add(self, paths: Sequence[str], known: Mapping[str, tuple[str, str]] | None = None) -> str:
        """Records ``paths`` as they are on disk, whatever the rules say; returns the tree.

        ``known`` are files on disk whose mode and blob need no reading.
        """
        if known:
            self._store.load(known)
            self._records.update({path: _Record(mode, blob, None) for path, (mode, blob) in known.items()})
            self._directories = None
            self._current = self._store.write_tree()
        found: dict[str, os.stat_result] = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                found[path] = self._tree.stat(path)
        # Also with nothing to add: taking paths out of the index may have changed the tree.
        self._record(found, [])
        return self._current

    def trust_disk(self) -> None:
        """Takes what is on disk now for what is recorded, without reading it (fresh copies only)."""
        # Long enough that no later write can leave the same time stamps.
        time.sleep(2 * _RACY_NS / 1e9)
        scan = self._survey()
        for path, record in self._records.items():
            details = scan.files.get(path)
            if details is not None and record.signature is None:
                self._records[path] = record._replace(signature=_exact(details))

    def base_is_here(self) -> str:
        """Declares everything recorded now to be the base: such paths are recorded whatever rules say."""
        self._always = set(self._records)
        return self._current

    def forget(self, paths: Mapping[str, object]) -> None:
        """Takes paths out of the index (gitlinks about to be replaced by files)."""
        self._store.update(paths, self._store.git_dir, (), 0)

    def snapshot(self) -> str:
        """Records the copy as it is; returns the tree."""
        scan = self._survey()
        for path in scan.special[:20]:
            self.notes[f"{path} is a pipe, socket or device and is left out"] = None
        changed = self._changed(scan)
        unreadable = tuple(f"{path}/" for path in scan.unreadable)
        for path in scan.unreadable[:20]:
            self.notes[f"the directory {path} could not be read"] = None
        removed = [
            path
            for path in self._records
            if path not in scan.files
            and path not in self._pinned
            and not (unreadable and path.startswith(unreadable))
        ]
        if changed or removed:
            self._record(changed, removed)
        return self._current

    def restore(self, tree: str) -> None:
        """Makes the copy equal to ``tree``; files that its own rules ignore stay."""
        self._store.require(tree)
        for _ in range(_RESTORE_ROUNDS):
            # Going back to older ignore rules may bring to light what newer ones had hidden.
            if not self._put_back(tree):
                return

    def _put_back(self, tree: str) -> bool:
        """One round; returns whether ignore rules were among what changed."""
        changes = self._store.changes(self.snapshot(), tree)
        changes += self._rewrites({change.path for change in changes})
        if not changes:
            return False
        self._store.read_tree(tree)
        self._current = tree
        self._directories = None
        written: list[TreeChange] = []
        for change in changes:
            if change.new_mode == GITLINK or change.path in self._pinned:
                continue
            if change.status == "D":
                self._records.pop(change.path, None)
            elif change.path in self._absent and self._absent[change.path] == (change.new_mode, change.blob):
                # Not on disk at the start either: its place is empty again.
                self._records.pop(change.path, None)
            else:
                self._records[change.path] = _Record(change.new_mode, change.blob, None)
                written.append(change)
        stage = self._store.new_stage()
        try:
            self._store.materialise([change.path for change in written], stage)
            kept = {change.path for change in written}
            for change in changes:
                if change.path not in kept and change.path not in self._pinned:
                    self._tree.remove(change.path)
            for change in written:
                details = self._tree.copy_in(stage / change.path, change.path)
                record = self._records[change.path]
                self._records[change.path] = record._replace(signature=_signature(details))
        except OSError as error:
            raise ToolError(f"the copy could not be put back: {error.strerror or error}") from error
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return any(change.path.rpartition("/")[2] == ".gitignore" for change in changes)

    def _rewrites(self, known: set[str]) -> list[TreeChange]:
        """Files whose present content could not be recorded: to be written again though nothing differs."""
        again = [path for path in self._unseen if path not in known and path in self._records]
        self._unseen.clear()
        modes = [(path, self._records[path]) for path in again]
        return [TreeChange(path, record.mode, record.mode, record.blob, "M") for path, record in modes]

    def _changed(self, scan: Scan) -> dict[str, os.stat_result]:
        changed: dict[str, os.stat_result] = {}
        new: list[str] = []
        records, pinned, refused = self._records, self._pinned, self._refused
        for path, details in scan.files.items():
            record = records.get(path)
            if record is None:
                if path not in pinned:
                    new.append(path)
            elif record.signature != _exact(details):
                changed[path] = details
        for path in self._wanted(new):
            details = scan.files[path]
            if path in refused:
                continue
            if stat.S_ISREG(details.st_mode) and details.st_size > MAX_RECORDED_BYTES:
                size = details.st_size >> 20
                self.notes[f"{path} has {size} MiB and is not part of snapshots and patches"] = None
                continue
            if _is_sparse(details):
                self.notes[f"{path} is mostly holes and is not part of snapshots and patches"] = None
                continue
            changed[path] = details
        return changed

    def _wanted(self, new: list[str]) -> list[str]:
        """New files that no rule leaves out."""
        unknown: list[str] = []
        for path in new:
            if path in self._always or path in self._ignored_files:
                continue
            if is_git_internal(path) or is_litter(path) or self._is_extra(path) or self._below_gitlink(path):
                self._ignored_files[path] = True
            else:
                unknown.append(path)
        ignored = self._store.ignored(unknown, directories=False)
        for path in unknown:
            self._ignored_files[path] = path in ignored
        return [path for path in new if path in self._always or not self._ignored_files[path]]

    def _is_extra(self, path: str) -> bool:
        return bool(self._extra) and any(part in self._extra for part in _prefixes(path))

    def _below_gitlink(self, path: str) -> bool:
        return bool(self._gitlinks) and any(part in self._gitlinks for part in _prefixes(path))

    def _record(self, changed: Mapping[str, os.stat_result], removed: list[str]) -> None:
        stage = self._store.new_stage()
        staged: dict[str, _Signature | None] = {}
        size = 0
        try:
            for path, details in changed.items():
                target = stage / path
                signature = _signature(details)
                if MAX_ROUND_BYTES - size < details.st_size <= MAX_TRACKED_BYTES:
                    self._leave_out(path)
                    continue
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    self._tree.copy_out(path, target, MAX_TRACKED_BYTES)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    target.unlink(missing_ok=True)
                    self._unseen.add(path)
                    self.notes[f"{path} could not be read: {error.strerror or error}"] = None
                    continue
                staged[path] = signature
                size += details.st_size
            for path in self._store.update(removed, stage, list(staged), size):
                self.notes[f"{path} is not in the encoding its attributes name: recorded as it is"] = None
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        tree = self._store.write_tree()
        for path in removed:
            del self._records[path]
            if path in self._absent:
                self._store.load({path: self._absent[path]})
                tree = self._store.write_tree()
        for change in self._store.changes(self._current, tree):
            if change.status != "D" and change.path in staged:
                self._records[change.path] = _Record(change.new_mode, change.blob, staged[change.path])
            elif change.status == "D":
                self._records.pop(change.path, None)
        for path, signature in staged.items():
            record = self._records.get(path)
            if record is None:
                self._refused.add(path)
                self.notes[f"{path} has a name git does not accept and is not recorded"] = None
            else:
                self._records[path] = record._replace(signature=signature)
        self._current = tree
        self._directories = None

    def _leave_out(self, path: str) -> None:
        if path in self._records:
            self._unseen.add(path)
        else:
            self._refused.add(path)
        self.notes[
            f"more than {MAX_ROUND_BYTES >> 30} GiB changed in the copy at once: "
            "not all of it is part of snapshots and patches"
        ] = None

    def _survey(self) -> Scan:
        """Lists the copy, entering only directories that hold or may hold recorded files."""
        for _ in range(3):
            self._ahead = []
            total = self._tree.scan([""], self._enter)
            again = self._sync_ignore_files(total)
            while (self._ahead or total.undecided) and not again:
                undecided, total.undecided = total.undecided, []
                ahead, self._ahead = self._ahead, []
                ignored = self._store.ignored([*ahead, *undecided], directories=True)
                for path in (*ahead, *undecided):
                    self._entered[path] = path not in ignored
                if ignored:
                    total.drop_below(ignored)
                more = self._tree.scan([path for path in undecided if path not in ignored], self._enter)
                total.add(more)
                again = self._sync_ignore_files(total)
            if not again:
                return total
        raise ToolError("the ignore rules in the copy keep changing while it is looked at")

    def _enter(self, path: str) -> bool | None:
        if self._directories is None:
            self._directories = _parents(self._records)
        if path in self._directories:
            return True
        verdict = self._entered.get(path)
        if verdict is None:
            name = path.rpartition("/")[2]
            if name.lower() == ".git" or path in self._extra or is_litter(path):
                verdict = self._entered[path] = False
            elif len(self._ahead) < _LOOK_AHEAD:
                # Entered before git is asked: one question for many directories instead of one per level.
                self._ahead.append(path)
                return True
        return verdict

    def _sync_ignore_files(self, scan: Scan) -> bool:
        """Mirrors changed ``.gitignore`` files; True when earlier verdicts fell: start the survey again."""
        now = {
            path: _exact(details)
            for path, details in scan.files.items()
            if path.endswith(".gitignore")
            and path.rpartition("/")[2] == ".gitignore"
            and stat.S_ISREG(details.st_mode)
        }
        stale = False
        for path in {*now, *self._ignore_files}:
            if now.get(path) == self._ignore_files.get(path):
                continue
            if path not in now and scan.undecided:
                # Its directory may not have been entered yet.
                continue
            try:
                content = self._tree.read(path, _IGNORE_FILE_BYTES) if path in now else None
            except OSError:
                content = None
            self._store.set_ignore_file(path, content)
            if path in now:
                self._ignore_files[path] = now[path]
            else:
                del self._ignore_files[path]
            prefix = path.removesuffix(".gitignore")
            for cache in (self._entered, self._ignored_files):
                for known in [known for known in cache if known.startswith(prefix)]:
                    del cache[known]
                    stale = stale or cache is self._entered
        return stale


def _is_sparse(details: os.stat_result) -> bool:
    """A large file with next to nothing in it; compressing file systems stay well above the eighth."""
    return (
        stat.S_ISREG(details.st_mode)
        and details.st_size > _SPARSE_FROM_BYTES
        and details.st_blocks * 512 < details.st_size // 8
    )


def _prefixes(path: str) -> Generator[str]:
    """The path and every directory above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _parents(paths: Mapping[str, object]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found
