"""Reading the user's repository: its state and which files make up the starting tree.

Nothing here writes: the index is copied first and only the copy is used, locks are off,
and content filters configured in the repository are replaced by nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import RepositoryError
from ..base.git import Git

GITLINK = "160000"
_STATES: tuple[tuple[str, str], ...] = (
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply", "a rebase or git am is in progress"),
    ("MERGE_HEAD", "a merge is in progress"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
    ("BISECT_LOG", "a bisect is in progress"),
)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Source:
    """Facts about the user's repository."""

    top: Path
    git_dir: Path
    common_dir: Path
    objects: tuple[Path, ...]
    """The object directory and its alternates, nearest first."""
    object_format: str
    head: str | None
    """The commit HEAD names, or None before the first commit."""
    branch: str | None
    shallow: bool
    config: Mapping[str, str]
    """Line-end settings that decide what git stores for a file: core.autocrlf, core.eol."""
    excludes_file: Path | None
    notes: tuple[str, ...]
    git: Git
    """Bound to the repository; read-only by construction."""


@dataclass
class Listing:
    """The files of the starting tree, relative to the top. ``unchanged`` maps path -> (mode, blob)."""

    unchanged: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    changed: list[str] = field(default_factory=list[str])
    """Tracked and modified, or untracked and not ignored: to be hashed."""
    absent: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """In the tree but not on disk by design: sparse files, submodules that are not checked out."""
    filtered: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """On disk in another form than stored, through a content filter (LFS): copied, never recorded."""
    untracked: list[str] = field(default_factory=list[str])
    submodules: list[str] = field(default_factory=list[str])
    links: dict[str, str] = field(default_factory=dict[str, str])
    """Commits recorded for checked-out submodules."""
    notes: list[str] = field(default_factory=list[str])


def open_source(repository: Path, git_dir: Path | None = None) -> Source:
    """Finds the repository ``repository`` belongs to.

    ``git_dir``: where it is, when the working tree itself does not say (GIT_DIR of a hook).

    Raises:
        RepositoryError: not a repository, bare, or unreadable.
    """
    if not repository.is_dir():
        raise RepositoryError(
            f"{repository} is not a directory", hint="give the directory of a git repository"
        )
    finder = Git(git_dir, repository)
    found = finder.run_sync(
        "rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--absolute-git-dir", check=False
    )
    if found.exit_code != 0:
        raise _unusable(repository, found.stderr)
    bare, inside, git_dir_text = found.text().split("\n", 2)
    if bare == "true":
        raise RepositoryError(
            f"{repository} is a bare repository: it has no files to work on",
            hint="clone it and give the clone",
        )
    if inside == "true":
        raise RepositoryError(
            f"{repository} lies inside a .git directory", hint="give the directory above it"
        )
    shown = finder.run_sync("rev-parse", "--show-toplevel", check=False)
    if shown.exit_code != 0:
        raise _unusable(repository, shown.stderr)
    top, git_dir = Path(shown.text()), Path(git_dir_text)
    neutral = _filters_off(Git(git_dir, top))
    git = Git(git_dir, top, config=neutral)
    common_dir = (top / git.run_sync("rev-parse", "--git-common-dir").text()).resolve()
    objects = (top / git.run_sync("rev-parse", "--git-path", "objects").text()).resolve()
    head_run = git.run_sync("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False)
    head = head_run.text() if head_run.exit_code == 0 else None
    branch_run = git.run_sync("symbolic-ref", "--quiet", "--short", "HEAD", check=False)
    shallow = git.run_sync("rev-parse", "--is-shallow-repository").text() == "true"
    notes: list[str] = []
    if repository.resolve() != top.resolve():
        notes.append(f"{repository} is inside the repository {top}, which is used as a whole")
    notes += [note for name, note in _STATES if (git_dir / name).exists()]
    if shallow:
        notes.append("the repository is a shallow clone: older history is not there")
    if head is not None and branch_run.exit_code != 0:
        notes.append("HEAD is detached")
    return Source(
        top=top,
        git_dir=git_dir,
        common_dir=common_dir,
        objects=_with_alternates(objects),
        object_format=git.run_sync("rev-parse", "--show-object-format").text(),
        head=head,
        branch=branch_run.text() if branch_run.exit_code == 0 else None,
        shallow=shallow,
        config=_line_end_config(git),
        excludes_file=_excludes_file(git),
        notes=tuple(notes),
        git=git,
    )


def _unusable(repository: Path, stderr: str) -> RepositoryError:
    said = " ".join(stderr.split())[:300]
    if "not a git repository" in said:
        pointer = repository / ".git"
        if pointer.exists():
            return RepositoryError(
                f"{repository} has a .git that git does not accept: {said}",
                hint="check its permissions; a linked worktree needs its main repository",
            )
        return RepositoryError(
            f"{repository} is not in a git repository",
            hint="run: git init && git add . && git commit -m start",
        )
    return RepositoryError(
        f"git cannot work with {repository}: {said}", hint="check the permissions of its .git"
    )


def _filters_off(git: Git) -> dict[str, str]:
    """Configuration that turns every content filter the repository or the user defines into a no-op."""
    listed = git.run_sync("config", "--name-only", "-z", "--get-regexp", r"^filter\.", check=False)
    overrides: dict[str, str] = {}
    for key in listed.fields():
        name = key.rsplit(".", 1)[0]
        overrides.update(
            {f"{name}.clean": "", f"{name}.smudge": "", f"{name}.process": "", f"{name}.required": "false"}
        )
    return overrides


def _line_end_config(git: Git) -> dict[str, str]:
    config: dict[str, str] = {}
    for key in ("core.autocrlf", "core.eol"):
        value = git.run_sync("config", "--get", key, check=False)
        if value.exit_code == 0:
            config[key] = value.text()
    return config


def _excludes_file(git: Git) -> Path | None:
    configured = git.run_sync("config", "--type=path", "--get", "core.excludesFile", check=False)
    if configured.exit_code == 0:
        return Path(configured.text())
    home = os.environ.get("XDG_CONFIG_HOME")
    if not home:
        try:
            home = Path.home() / ".config"
        except RuntimeError:
            # A numeric user without an entry in the password file and without HOME has no home.
            return None
    return Path(home) / "git" / "ignore"


def _with_alternates(objects: Path) -> tuple[Path, ...]:
    found: list[Path] = []
    queue = [objects]
    while queue:
        directory = queue.pop(0)
        if directory in found or not directory.is_dir():
            continue
        found.append(directory)
        try:
            lines = (directory / "info" / "alternates").read_bytes().splitlines()
        except OSError:
            continue
        queue += [
            (directory / os.fsdecode(line)).resolve() for line in lines if line and not line.startswith(b"#")
        ]
    return tuple(found)


def list_files(
    source: Source, scratch: Path, *, index_file: Path | None = None, skip: Path | None = None
) -> Listing:
    """The working tree's state: tracked files as they are now plus untracked files that are not ignored.

    Args:
        scratch: directory for the private copy of the index.
        index_file: the index to read instead of the repository's own (hooks).
        skip: a directory inside the repository to leave out (our own run directory).
    """
    listing = Listing()
    git = _with_index_copy(source.git, index_file or source.git_dir / "index", scratch / "user-index")
    # Tag, mode, blob, stage and name of every entry: "H 100644 <blob> 0\t<name>".
    missing = set(git.run_sync("ls-files", "-z", "--deleted").fields())
    modified = set(git.run_sync("ls-files", "-z", "--modified").fields())
    unmerged: set[str] = set()
    recorded: dict[str, tuple[str, str]] = {}
    sparse = 0
    for line in git.run_sync("ls-files", "-z", "-t", "--stage").fields():
        head, _, path = line.partition("\t")
        tag, mode, blob, stage_number = head.split(" ")
        recorded[path] = (mode, blob)
        if stage_number != "0":
            unmerged.add(path)
        elif mode == GITLINK:
            if (source.top / path / ".git").exists():
                listing.submodules.append(path)
                listing.links[path] = blob
            else:
                listing.absent[path] = (mode, blob)
                listing.notes.append(f"the submodule {path} is not checked out and stays empty")
        elif tag.upper() == "S":
            if os.path.lexists(source.top / path):
                listing.changed.append(path)
            else:
                listing.absent[path] = (mode, blob)
                sparse += 1
        elif path in missing:
            continue
        elif path in modified:
            listing.changed.append(path)
        else:
            listing.unchanged[path] = (mode, blob)
    if sparse:
        listing.notes.append(f"the checkout is sparse: {sparse} files are not on disk and stay as committed")
    for path in sorted(unmerged):
        if os.path.lexists(source.top / path):
            listing.changed.append(path)
    if unmerged:
        listing.notes.append(f"{len(unmerged)} files have unresolved merge conflicts")
    _add_untracked(source, git, listing, skip)
    set_filtered_apart(source, git, listing, recorded)
    return listing


def _with_index_copy(git: Git, index: Path, copy: Path) -> Git:
    if index.is_file():
        shutil.copyfile(index, copy)
    else:
        copy.unlink(missing_ok=True)
    return git.with_options(extra_env={"GIT_INDEX_FILE": str(copy)})


def _add_untracked(source: Source, git: Git, listing: Listing, skip: Path | None) -> None:
    left_out = os.path.relpath(skip, source.top) if skip is not None else None
    for path in git.run_sync("ls-files", "-z", "--others", "--exclude-standard").fields():
        if left_out is not None and (path == left_out or path.startswith(left_out + "/")):
            continue
        if path.endswith("/"):
            # A repository that is not registered as a submodule: git does not look inside.
            inner = _walk_nested(source.top, path.rstrip("/"))
            listing.untracked += inner
            listing.notes.append(
                f"{path} is a repository of its own; its {len(inner)} files are copied as plain files"
            )
        elif not (source.top / path).is_dir() or (source.top / path).is_symlink():
            listing.untracked.append(path)
    listing.changed += listing.untracked


def _walk_nested(top: Path, start: str) -> list[str]:
    found: list[str] = []
    queue = [start]
    while queue:
        directory = queue.pop()
        with os.scandir(top / directory) as entries:
            for entry in entries:
                path = f"{directory}/{entry.name}"
                if entry.name.lower() == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    queue.append(path)
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    found.append(path)
    return sorted(found)


def set_filtered_apart(
    source: Source, git: Git, listing: Listing, recorded: Mapping[str, tuple[str, str]]
) -> None:
    """Moves files whose stored form only a filter could make (which is not run) to ``filtered``."""
    tracked = [*listing.unchanged, *(set(listing.changed) - set(listing.untracked))]
    data = b"".join(os.fsencode(path) + b"\0" for path in tracked)
    if not data:
        return
    fields = git.run_sync("check-attr", "-z", "--stdin", "filter", input=data).stdout.split(b"\0")
    pointers = filtered = 0
    for position in range(0, len(fields) - 2, 3):
        path, value = os.fsdecode(fields[position]), fields[position + 2]
        if value in (b"unspecified", b"unset", b"set"):
            continue
        if _is_lfs_pointer(source.top / path):
            pointers += 1
        else:
            listing.filtered[path] = recorded[path]
            filtered += 1
    listing.unchanged = {
        path: entry for path, entry in listing.unchanged.items() if path not in listing.filtered
    }
    listing.changed = [path for path in listing.changed if path not in listing.filtered]
    if pointers:
        listing.notes.append(f"{pointers} Git LFS files are pointers without their content, and stay so")
    if filtered:
        listing.notes.append(
            f"{filtered} files go through a content filter (Git LFS or like it): they are copied as they "
            f"are on disk, and changes to them are not recorded"
        )


def _is_lfs_pointer(path: Path) -> bool:
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError:
        return False
