"""A start that is no working tree: what an index would commit, or the tree of a commit being pushed.

The index is copied before git looks at it, and the tree it makes goes into a private object
directory, so neither the user's index nor their object store is written.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import RepositoryError
from .copying import Plan
from .safe_tree import SafeTree
from .source import GITLINK, Listing, Source, open_source, set_filtered_apart
from .store import Store


@dataclass(frozen=True)
class StartTree:
    """What a run starts from in place of the working tree."""

    tree: str
    """Tree hash."""
    commit: str | None
    """The commit it stands on: HEAD for an index, the commit itself for one being pushed."""
    objects: tuple[Path, ...] = ()
    """Object directories besides the repository's own that hold parts of it."""
    git_dir: Path | None = None
    """Where the repository is, when its working tree does not lead there."""


def freeze_index(
    repository: Path,
    index: Path,
    scratch: Path,
    *,
    git_dir: Path | None = None,
    objects: tuple[Path, ...] = (),
) -> StartTree:
    """The tree that committing ``index`` would make, without what is only intended to be added.

    Args:
        index: read once, for a private copy; may be missing (an empty repository).
        scratch: an existing directory; holds the copy and new tree objects as long as the run lasts.
        objects: more object directories that git was told to use.

    Raises:
        RepositoryError: the index holds unresolved conflicts, or cannot be read.
    """
    source = open_source(repository, git_dir)
    private = scratch / "objects"
    private.mkdir()
    copy = scratch / "index"
    if index.is_file():
        shutil.copyfile(index, copy)
    alternates = (*objects, *source.objects)
    git = source.git.with_options(
        extra_env={
            "GIT_INDEX_FILE": str(copy),
            "GIT_OBJECT_DIRECTORY": str(private),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(_quoted(path) for path in alternates),
        },
        config={"core.splitIndex": "false"},
    )
    # Blobs of partial clones may be missing; git would not fetch them for a commit either.
    made = git.run_sync("write-tree", "--missing-ok", check=False)
    if made.exit_code != 0:
        said = " ".join(made.stderr.split())[:200]
        raise RepositoryError(
            f"the index cannot be committed: {said}", hint="resolve the conflicts and add the files"
        )
    return StartTree(made.text(), source.head, (private, *objects), git_dir)


def plan_start_tree(source: Source, start: StartTree, store: Store, tree: SafeTree) -> Plan:
    """Writes the files of the start tree into the (empty) copy.

    Checked-out submodules are filled with the commit that the tree names, where it is there.
    """
    store.adopt(start.tree)
    entries = store.entries()
    files = {path: entry for path, entry in entries.items() if entry[0] != GITLINK}
    plan = Plan(alternates=list(source.objects))
    apart = Listing(unchanged=dict(files))
    set_filtered_apart(source, source.git, apart, files)
    plan.filtered = {path: entry for path, entry in apart.filtered.items() if (source.top / path).is_file()}
    plan.present = {path: entry for path, entry in files.items() if path not in plan.filtered}
    plan.notes += apart.notes if plan.filtered else []
    _write(store, tree, plan.present)
    for path in plan.filtered:
        tree.copy_in(source.top / path, path, keep_times=True)
    for path, entry in entries.items():
        if entry[0] == GITLINK:
            _fill_submodule(source, store, tree, plan, path, entry[1])
    return plan


def submodule_objects(source: Source, start: StartTree) -> list[Path]:
    """Object directories of checked-out submodules, which the store needs before it is made."""
    found: list[Path] = []
    extra = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(_quoted(path) for path in start.objects)}
    listed = source.git.with_options(extra_env=extra).run_sync(
        "ls-tree", "-r", "-z", "--full-tree", start.tree
    )
    for line in listed.fields():
        head, _, path = line.partition("\t")
        if head.startswith(GITLINK) and (source.top / path / ".git").exists():
            try:
                found += [place for place in open_source(source.top / path).objects if place not in found]
            except RepositoryError:
                continue  # it stays empty, with a note
    return found


def _fill_submodule(
    source: Source, store: Store, tree: SafeTree, plan: Plan, prefix: str, commit: str
) -> None:
    inner: dict[str, tuple[str, str]] = {}
    if (source.top / prefix / ".git").exists():
        try:
            git = open_source(source.top / prefix).git
            listed = git.run_sync("ls-tree", "-r", "-z", "--full-tree", commit).fields()
        except RepositoryError:
            listed = []
        for line in listed:
            head, _, path = line.partition("\t")
            mode, kind, blob = head.split(" ")
            if kind == "blob":
                inner[f"{prefix}/{path}"] = (mode, blob)
    if not inner:
        plan.absent[prefix] = (GITLINK, commit)
        plan.notes.append(f"the submodule {prefix} is not there at the commit that is named, and stays empty")
        return
    store.load(inner)
    _write(store, tree, inner)
    plan.gitlinks[prefix] = (GITLINK, commit)
    plan.inner.update(inner)
    plan.notes.append(f"the submodule {prefix} is copied as plain files")


def _write(store: Store, tree: SafeTree, entries: dict[str, tuple[str, str]]) -> None:
    stage = store.new_stage()
    store.materialise(list(entries), stage)
    for path in entries:
        if os.path.lexists(stage / path):
            tree.copy_in(stage / path, path)
    shutil.rmtree(stage, ignore_errors=True)


def _quoted(path: Path) -> str:
    text = str(path)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
