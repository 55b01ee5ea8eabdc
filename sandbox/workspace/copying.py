"""Filling the copy: the user's files as they are now, or those of a revision."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import RepositoryError, UsageError
from .names import is_git_internal, looks_secret
from .safe_tree import SafeTree
from .source import GITLINK, Listing, Source, list_files, open_source
from .store import Store

Entries = dict[str, tuple[str, str]]
MAX_COPIED_UNTRACKED_BYTES = 1 << 30


@dataclass
class Plan:
    """The starting tree before anything is recorded. All paths are relative to the top."""

    present: Entries = field(default_factory=Entries)
    """On disk as git has it: path -> (mode, blob)."""
    absent: Entries = field(default_factory=Entries)
    filtered: Entries = field(default_factory=Entries)
    to_hash: list[str] = field(default_factory=list[str])
    gitlinks: Entries = field(default_factory=Entries)
    """Checked-out submodules; their files are in ``inner`` and ``inner_to_hash``."""
    inner: Entries = field(default_factory=Entries)
    inner_to_hash: list[str] = field(default_factory=list[str])
    alternates: list[Path] = field(default_factory=list[Path])
    notes: list[str] = field(default_factory=list[str])


def plan_working_tree(source: Source, scratch: Path, index_file: Path | None, skip: Path | None) -> Plan:
    """What the working tree holds: tracked files as they are, untracked ones that are not ignored."""
    listing = list_files(source, scratch, index_file=index_file, skip=skip)
    plan = Plan(
        present=listing.unchanged,
        absent=listing.absent,
        filtered=listing.filtered,
        to_hash=listing.changed,
        gitlinks={path: (GITLINK, commit) for path, commit in listing.links.items()},
        alternates=list(source.objects),
        notes=listing.notes,
    )
    for path in listing.submodules:
        _add_submodule(plan, source.top, path, scratch)
    secrets = [path for path in listing.untracked if looks_secret(path)]
    if secrets:
        shown = ", ".join(sorted(secrets)[:5])
        plan.notes.append(
            f"untracked files that look like secrets are in the copy ({shown}): "
            f"add them to .gitignore to keep them out"
        )
    return plan


def _add_submodule(plan: Plan, top: Path, prefix: str, scratch: Path) -> None:
    try:
        inner_source = open_source(top / prefix)
        inner: Listing = list_files(inner_source, scratch)
    except RepositoryError as error:
        plan.notes.append(f"the submodule {prefix} could not be read and stays empty: {error.message}")
        plan.absent[prefix] = plan.gitlinks.pop(prefix)
        return

    def moved(entries: Entries) -> Entries:
        return {f"{prefix}/{path}": entry for path, entry in entries.items()}

    plan.inner.update(moved(inner.unchanged))
    plan.absent.update(moved(inner.absent))
    plan.filtered.update(moved(inner.filtered))
    plan.inner_to_hash += [f"{prefix}/{path}" for path in inner.changed]
    plan.alternates += [path for path in inner_source.objects if path not in plan.alternates]
    plan.notes.append(f"the submodule {prefix} is copied as plain files")
    plan.notes += [f"in {prefix}: {note}" for note in inner.notes]
    for path in inner.submodules:
        _add_submodule(plan, top, f"{prefix}/{path}", scratch)
        plan.gitlinks.pop(f"{prefix}/{path}", None)


def copy_working_tree(source: Source, plan: Plan, tree: SafeTree) -> None:
    """Copies every planned file; what cannot be copied is taken out of the plan with a note."""
    for entries in (plan.present, plan.filtered, plan.inner):
        for path in list(entries):
            problem = _copy_one(source.top, path, tree, None)
            if problem:
                plan.notes.append(f"{path} is tracked but could not be copied: {problem}")
                plan.absent[path] = entries.pop(path)
    untracked_limit = MAX_COPIED_UNTRACKED_BYTES
    for paths in (plan.to_hash, plan.inner_to_hash):
        for path in list(paths):
            problem = _copy_one(source.top, path, tree, untracked_limit)
            if problem:
                plan.notes.append(f"{path} was not copied: {problem}")
                paths.remove(path)


def _copy_one(top: Path, path: str, tree: SafeTree, limit: int | None) -> str:
    """Copies one file; returns what was wrong, or an empty text."""
    if is_git_internal(path):
        return "it has a name reserved for git"
    original = top / path
    try:
        details = original.lstat()
        if not (stat.S_ISREG(details.st_mode) or stat.S_ISLNK(details.st_mode)):
            return "it is not a regular file any more"
        if limit is not None and details.st_size > limit:
            return f"it has {details.st_size >> 20} MiB"
        tree.copy_in(original, path, keep_times=True)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def resolve_revision(source: Source, revision: str) -> str:
    """The commit that ``revision`` names. Raises UsageError when there is none."""
    if revision.startswith("-"):
        raise UsageError(f"{revision!r} is not a revision")
    found = source.git.run_sync("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", check=False)
    if found.exit_code != 0:
        hint = (
            "a shallow clone lacks older history: git fetch --unshallow" if source.shallow else "see git log"
        )
        raise UsageError(f"{revision!r} does not name a commit of {source.top}", hint=hint)
    return found.text()


def plan_revision(source: Source, commit: str, store: Store, tree: SafeTree) -> Plan:
    """Loads a commit into the store and writes its files into the (empty) copy."""
    store.adopt(source.git.run_sync("rev-parse", f"{commit}^{{tree}}").text())
    entries = store.entries()
    links = {path: entry for path, entry in entries.items() if entry[0] == GITLINK}
    files = {path: entry for path, entry in entries.items() if path not in links}
    stage = store.new_stage()
    store.materialise(list(files), stage)
    for path in files:
        tree.copy_in(stage / path, path)
    plan = Plan(present=files, absent=links, alternates=list(source.objects))
    for path in links:
        plan.notes.append(f"the submodule {path} stays empty when a revision is checked out")
    return plan


def copy_extra(
    source: Source, patterns: Sequence[str], tree: SafeTree, recorded: Iterable[str]
) -> frozenset[str]:
    """Copies git-ignored build outputs; returns the paths that must never be recorded.

    ``patterns`` are paths relative to the top, or globs (``**/`` reaches into ignored directories).
    """
    known = set(recorded)
    extra: set[str] = set()
    for pattern in patterns:
        plain = pattern.strip("/")
        if not plain or ".." in plain.split("/"):
            raise UsageError(f"{pattern!r} is not a path inside the repository")
        matches = (
            sorted(source.top.glob(plain)) if any(char in plain for char in "*?[") else [source.top / plain]
        )
        for match in matches:
            relative = match.relative_to(source.top).as_posix()
            if os.path.lexists(match) and relative not in known and not is_git_internal(relative):
                _copy_extra_item(source.top, relative, tree, known, extra)
    return frozenset(extra)


def _copy_extra_item(top: Path, relative: str, tree: SafeTree, known: set[str], extra: set[str]) -> None:
    queue = [relative]
    while queue:
        path = queue.pop()
        original = top / path
        if original.is_dir() and not original.is_symlink():
            queue += [f"{path}/{name.name}" for name in original.iterdir() if name.name.lower() != ".git"]
            if not any(item.startswith(f"{path}/") for item in known):
                extra.add(path)
        elif path not in known and not _copy_one(top, path, tree, None):
            extra.add(path)
