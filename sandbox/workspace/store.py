"""The private git directory: blobs and trees of snapshots, never the user's and never the copy's own.

Git itself never looks into the copy, which a hostile process may be changing: changed
files are first copied to a staging directory, and files to restore are first written to one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import RepositoryError, ToolError
from ..base.git import Git
from .source import Source

_PACK_AFTER_BYTES = 256 << 20
CAP_BYTES = 2 << 30
_KEEP_AT_LEAST = 32
_TIMEOUT_S = 300.0
_ADD = ("update-index", "--add", "--replace", "-z", "--stdin")


@dataclass(frozen=True)
class TreeChange:
    """One path that differs between two trees; modes are git's ("000000" = not there)."""

    path: str
    old_mode: str
    new_mode: str
    blob: str
    status: str


class Store:
    """Snapshots as git trees under ``directory``, with the user's objects as alternates.

    Growth is bounded: after every 256 MiB of new content the loose objects are packed
    (near-identical versions of a file cost little then), and beyond ``cap_bytes`` (2 GiB) the
    oldest snapshots are forgotten, never the base or the newest 32.
    """

    def __init__(self, directory: Path, *, cap_bytes: int | None = None) -> None:
        self._git_dir = directory / "store.git"
        self._directory = directory
        # Two copies of the ignore rules: questions about directories need these to exist, and a
        # file must not be taken for the directory that had its name before.
        self._mirror = directory / "ignore-rules"
        self._bare_mirror = directory / "ignore-rules-for-files"
        self._cap_bytes = CAP_BYTES if cap_bytes is None else cap_bytes
        self._unpacked = 0
        self._kept: dict[str, None] = {}
        self._dropped: set[str] = set()
        self._as_is: set[str] = set()
        self._numbers = itertools.count()

    @property
    def git_dir(self) -> Path:
        return self._git_dir

    def create(self, source: Source, alternates: Sequence[Path]) -> None:
        """Makes the empty store for ``source``."""
        for part in ("objects/info", "objects/pack", "refs/snapshots", "info"):
            (self._git_dir / part).mkdir(parents=True)
        self._mirror.mkdir()
        self._bare_mirror.mkdir()
        write = {
            "HEAD": b"ref: refs/heads/none\n",
            "config": _config(source).encode(),
            "objects/info/alternates": b"".join(_alternate_line(path) for path in alternates),
            "info/exclude": exclude_rules(source),
            "info/attributes": _read_or_empty(source.common_dir / "info" / "attributes"),
        }
        for name, data in write.items():
            (self._git_dir / name).write_bytes(data)

    def _git(self, work_tree: Path) -> Git:
        return Git(
            self._git_dir,
            work_tree,
            extra_env={"GIT_LITERAL_PATHSPECS": "1"},
            config={"core.bare": "false"},
            user_config=False,
        )

    def _run(self, *args: str, work_tree: Path | None = None, data: bytes | None = None) -> bytes:
        git = self._git(work_tree or self._mirror)
        return git.run_sync(*args, input=data, timeout_s=_TIMEOUT_S).stdout

    def new_stage(self) -> Path:
        """A fresh empty directory outside the copy."""
        stage = self._directory / f"stage-{next(self._numbers)}"
        stage.mkdir()
        return stage

    def load(self, entries: Mapping[str, tuple[str, str]]) -> None:
        """Adds path -> (mode, object id) to the index as they are."""
        lines = (f"{mode} {blob}\t".encode() + os.fsencode(path) for path, (mode, blob) in entries.items())
        self._run(
            "update-index",
            "--replace",
            "-z",
            "--index-info",
            data=b"\0".join(lines) + b"\0" if entries else b"",
        )

    def update(
        self, removed: Iterable[str], stage: Path, added: Sequence[str], added_bytes: int
    ) -> tuple[str, ...]:
        """Takes paths out of the index, then adds those staged under ``stage``.

        Returns those that had to be added byte for byte, because the encoding that the copy's
        ``.gitattributes`` name for them is unknown or not theirs (git refuses the whole lot then).
        """
        gone = _joined(removed)
        if gone:
            self._run("update-index", "--force-remove", "-z", "--stdin", data=gone)
        if not added:
            return ()
        self._unpacked += added_bytes
        try:
            self._run(*_ADD, work_tree=stage, data=_joined(added))
        except RepositoryError:
            encoded = self._with_encoding(stage, added)
            if not encoded:
                raise
            rest = [path for path in added if path not in encoded]
            if rest:
                self._run(*_ADD, work_tree=stage, data=_joined(rest))
            self._add_as_is(stage, encoded)
            return tuple(encoded)
        return ()

    def _with_encoding(self, stage: Path, paths: Sequence[str]) -> dict[str, str]:
        """Staged regular files that attributes give an encoding; path -> mode."""
        command = ("check-attr", "-z", "--stdin", "working-tree-encoding")
        fields = self._run(*command, work_tree=stage, data=_joined(paths)).split(b"\0")
        found: dict[str, str] = {}
        for position in range(0, len(fields) - 2, 3):
            path = os.fsdecode(fields[position])
            details = (stage / path).lstat()
            if fields[position + 2] != b"unspecified" and stat.S_ISREG(details.st_mode):
                found[path] = "100755" if details.st_mode & 0o100 else "100644"
        return found

    def _add_as_is(self, stage: Path, modes: Mapping[str, str]) -> None:
        command = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        lines = b"".join(_c_quoted(os.fsencode(path)) + b"\n" for path in modes)
        blobs = self._run(*command, work_tree=stage, data=lines).decode().split()
        self.load({path: (mode, blob) for (path, mode), blob in zip(modes.items(), blobs, strict=True)})
        self._as_is.update(blobs)

    def write_tree(self) -> str:
        """The index as a tree, kept until dropped by the bound."""
        # Blobs of files that are not on disk (sparse, partial clones) may be missing.
        tree = self._run("write-tree", "--missing-ok").decode().strip()
        (self._git_dir / "refs" / "snapshots" / tree).write_text(tree + "\n")
        self._kept.pop(tree, None)
        self._kept[tree] = None
        self._dropped.discard(tree)
        if self._unpacked > _PACK_AFTER_BYTES:
            self._bound()
        return tree

    def require(self, tree: str) -> None:
        """Raises ToolError unless ``tree`` is a recorded snapshot."""
        if tree in self._dropped:
            raise ToolError(f"the snapshot {tree[:12]} is no longer kept: the store reached its size limit")
        if tree not in self._kept:
            raise ToolError(f"there is no snapshot {tree[:12]}")

    def read_tree(self, tree: str) -> None:
        """Makes the index equal to ``tree``."""
        self._run("read-tree", tree)

    def adopt(self, tree: str) -> None:
        """Registers a tree of the user's repository as a snapshot and loads it into the index."""
        self.read_tree(tree)
        self.write_tree()

    def mixed_tree(self, now: str, other: str, paths: Sequence[str]) -> str:
        """The tree ``now`` with some paths as they are (or are not) in ``other``; the index stays."""
        lines = self._run("ls-tree", "-r", "-z", "--full-tree", other, "--", *paths).split(b"\0")
        there: dict[str, tuple[str, str]] = {}
        for line in lines:
            if line:
                head, _, path = line.partition(b"\t")
                mode, _kind, blob = head.decode().split(" ")
                there[os.fsdecode(path)] = (mode, blob)
        try:
            self.update([path for path in paths if path not in there], self._git_dir, (), 0)
            self.load(there)
            return self.write_tree()
        finally:
            self.read_tree(now)

    def applies(self, patch: bytes, tree: str) -> bool:
        """Whether a patch applies to a clean checkout of ``tree``, as ``git apply --check`` sees it."""
        index = self._directory / f"check-{next(self._numbers)}.index"
        git = self._git(self._mirror).with_options(extra_env={"GIT_INDEX_FILE": str(index)})
        try:
            git.run_sync("read-tree", tree, timeout_s=_TIMEOUT_S)
            command = ("apply", "--cached", "--check", "--whitespace=nowarn", "-")
            return git.run_sync(*command, input=patch, check=False, timeout_s=_TIMEOUT_S).exit_code == 0
        finally:
            index.unlink(missing_ok=True)

    def patched(self, tree: str, patch: bytes, *, reverse: bool, three_way: bool) -> str | None:
        """Records ``tree`` with a patch applied (or taken back); None when it does not fit."""
        index = self._directory / f"patch-{next(self._numbers)}.index"
        git = self._git(self._mirror).with_options(extra_env={"GIT_INDEX_FILE": str(index)})
        options = [*(["--reverse"] if reverse else []), *(["--3way"] if three_way else [])]
        command = ("apply", "--cached", "--whitespace=nowarn", *options, "-")
        try:
            git.run_sync("read-tree", tree, timeout_s=_TIMEOUT_S)
            if git.run_sync(*command, input=patch, check=False, timeout_s=_TIMEOUT_S).exit_code != 0:
                return None
            made = git.run_sync("write-tree", "--missing-ok", timeout_s=_TIMEOUT_S).text()
        finally:
            index.unlink(missing_ok=True)
        (self._git_dir / "refs" / "snapshots" / made).write_text(made + "\n")
        self._kept[made] = None
        self._dropped.discard(made)
        return made

    def entries(self) -> dict[str, tuple[str, str]]:
        """The index: path -> (mode, object id)."""
        found: dict[str, tuple[str, str]] = {}
        for line in self._run("ls-files", "-z", "--stage").split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, blob, _stage = head.decode().split(" ")
                found[os.fsdecode(path)] = (mode, blob)
        return found

    def materialise(self, paths: Sequence[str], target: Path) -> None:
        """Writes files of the index below ``target`` (an empty directory)."""
        command = ("checkout-index", "-q", "-f", "-z", "--stdin", f"--prefix={target}/")
        self._run(*command, data=_joined(paths))
        if self._as_is:
            entries = self.entries()
            for path in paths:
                if entries[path][1] in self._as_is:
                    (target / path).write_bytes(self._run("cat-file", "blob", entries[path][1]))

    def changes(self, start: str, end: str, *, renames: bool = False) -> list[TreeChange]:
        """Differences between two trees; with ``renames`` a rename is one change with the new path."""
        if start == end:
            return []
        found: list[TreeChange] = []
        command = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M" if renames else "--no-renames")
        fields = self._run(*command, start, end).split(b"\0")
        position = 0
        while position + 1 < len(fields):
            old_mode, new_mode, _old, blob, status = fields[position][1:].decode().split(" ")
            position += 2 if status[0] in "RC" else 1
            path = os.fsdecode(fields[position])
            position += 1
            found.append(TreeChange(path, old_mode, new_mode, blob, status[0]))
        return found

    def diff(self, start: str, end: str, paths: Sequence[str]) -> bytes:
        """A patch in git's own format that ``git apply`` accepts, also for binaries, renames and modes.

        The attributes of ``start`` count: what the copy's own ``.gitattributes`` have become could
        call a program text binary, and nobody would read the change.
        """
        command = ["diff-tree", "-r", "-p", "--binary", "--full-index", "-M", "--no-color", "--no-ext-diff"]
        command += ["--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", start, end]
        index = self._directory / f"diff-{next(self._numbers)}.index"
        git = self._git(self._mirror).with_options(extra_env={"GIT_INDEX_FILE": str(index)})
        try:
            git.run_sync("read-tree", start, timeout_s=_TIMEOUT_S)
            limited = ("--", *paths) if paths else ()
            return git.run_sync(*command, *limited, timeout_s=_TIMEOUT_S).stdout
        finally:
            index.unlink(missing_ok=True)

    def blob(self, tree: str, path: str) -> bytes:
        """Content of one file of a tree. Raises RepositoryError when it is not there."""
        return self._run("cat-file", "blob", f"{tree}:{path}")

    def set_ignore_file(self, path: str, content: bytes | None) -> None:
        """Mirrors one ``.gitignore`` of the copy (None: it is gone)."""
        for mirror in (self._mirror, self._bare_mirror):
            mirrored = mirror / path
            if content is not None:
                mirrored.parent.mkdir(parents=True, exist_ok=True)
                mirrored.write_bytes(content)
                continue
            mirrored.unlink(missing_ok=True)
            if mirror is self._bare_mirror:
                _remove_empty(mirrored.parent, mirror)

    def ignored(self, paths: Sequence[str], *, directories: bool) -> set[str]:
        """Which of ``paths`` the ignore rules leave out. Nothing in the copy is read."""
        if not paths:
            return set()
        mirror = self._mirror if directories else self._bare_mirror
        if directories:
            for path in paths:
                # A directory of that name would stand in the way of the rules.
                if ".gitignore" not in path.split("/"):
                    (mirror / path).mkdir(parents=True, exist_ok=True)
        # This command knows no literal pathspecs; "./" keeps a leading ":" from being magic.
        git = self._git(mirror).with_options(extra_env={"GIT_LITERAL_PATHSPECS": "0"})
        command = ("check-ignore", "--no-index", "-z", "--stdin")
        data = _joined(f"./{path}" for path in paths)
        result = git.run_sync(*command, input=data, check=False, timeout_s=_TIMEOUT_S)
        if result.exit_code > 1:
            raise RepositoryError(f"git check-ignore failed: {' '.join(result.stderr.split())[:300]}")
        return {path.removeprefix("./") for path in result.fields()}

    def size_bytes(self) -> int:
        """Disk space the store's own objects take."""
        return sum(item.lstat().st_blocks * 512 for item in (self._git_dir / "objects").rglob("*"))

    def _bound(self) -> None:
        self._unpacked = 0
        self._pack()
        while self.size_bytes() > self._cap_bytes and len(self._kept) > _KEEP_AT_LEAST + 1:
            base, *others = self._kept
            for tree in others[: max(1, (len(others) - _KEEP_AT_LEAST + 1) // 2)]:
                (self._git_dir / "refs" / "snapshots" / tree).unlink(missing_ok=True)
                del self._kept[tree]
                self._dropped.add(tree)
            assert base in self._kept
            self._pack()

    def _pack(self) -> None:
        # A pack that cannot be made (objects missing in a partial clone, full disk) costs space, no data.
        git = self._git(self._mirror).with_options(config={"pack.threads": "1", "pack.windowMemory": "256m"})
        packed = git.run_sync("repack", "-a", "-d", "-l", "-q", check=False, timeout_s=_TIMEOUT_S)
        if packed.exit_code == 0:
            git.run_sync("prune", "--expire=now", check=False, timeout_s=_TIMEOUT_S)

    def destroy(self) -> None:
        """Removes the store and everything beside it."""
        shutil.rmtree(self._directory, ignore_errors=True)


def exclude_rules(source: Source) -> bytes:
    """Ignore rules that are not in the tree: the user's global file, then the repository's info/exclude."""
    parts = [_read_or_empty(source.excludes_file)] if source.excludes_file else []
    parts.append(_read_or_empty(source.common_dir / "info" / "exclude"))
    return b"\n".join(parts) + b"\n"


def config_lines(source: Source) -> list[str]:
    """The core settings shared by the store and the copy's own repository."""
    version = 0 if source.object_format == "sha1" else 1
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tfilemode = true", "\tsymlinks = true"]
    lines += [f"\t{key.removeprefix('core.')} = {value}" for key, value in source.config.items()]
    if version:
        lines += ["[extensions]", f"\tobjectFormat = {source.object_format}"]
    return lines


def _config(source: Source) -> str:
    extra = "\tsafecrlf = false\n\tlooseCompression = 1\n\tprotectHFS = false\n\tprotectNTFS = false\n"
    return "\n".join(config_lines(source)) + f"\n[core]\n\tignoreCase = false\n{extra}"


def _alternate_line(path: Path) -> bytes:
    raw = os.fsencode(path)
    if b"\n" in raw or raw.startswith((b'"', b"#")):
        raw = b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return raw + b"\n"


def _read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _joined(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _c_quoted(name: bytes) -> bytes:
    """A name as git reads it in quotes, whatever bytes it has."""
    plain = b"".join(
        bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in name
    )
    return b'"' + plain + b'"'


def _remove_empty(directory: Path, top: Path) -> None:
    with contextlib.suppress(OSError):
        while directory != top:
            directory.rmdir()
            directory = directory.parent
