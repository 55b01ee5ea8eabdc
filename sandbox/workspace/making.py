"""Making a working copy: the files, their record, and the copy's own repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..protocol import Mount
from .copy_git import make_copy_repository
from .copying import (
    Plan,
    copy_extra,
    copy_working_tree,
    plan_revision,
    plan_working_tree,
    resolve_revision,
)
from .recorder import Recorder
from .safe_tree import SafeTree
from .source import Source
from .start_tree import StartTree, plan_start_tree, submodule_objects
from .store import Store
from .unrecorded import Unrecorded


@dataclass(frozen=True)
class BaseState:
    """What the run started from."""

    repository: Path
    """Top of the user's working tree."""
    commit: str | None
    """The commit checked out (or the revision asked for); None before the first commit."""
    tree: str
    """HEAD plus uncommitted and untracked, not ignored files; what the patch is a diff against."""
    dirty: bool
    """Whether ``tree`` differs from the commit's own tree."""
    branch: str | None
    notes: tuple[str, ...]
    """One line each: states and limits worth telling the person."""


@dataclass(frozen=True)
class Parts:
    """What a workspace is made of."""

    base: BaseState
    tree: SafeTree
    store: Store
    recorder: Recorder
    mounts: tuple[Mount, ...]
    unrecorded: Unrecorded


def make_parts(
    source: Source,
    root: Path,
    private: Path,
    run_dir: Path,
    wanted: StartTree | str | None,
    owner: tuple[int, int] | None,
    extra_paths: tuple[str, ...],
    objects_inside: str | None,
    index_file: Path | None,
) -> Parts:
    """Copies the tree, records it, and gives the copy a repository of its own (see ``Workspace.create``)."""
    tree = SafeTree(root, owner)
    if owner is not None:
        os.chown(root, *owner)
    store = Store(private)
    commit, branch = source.head, source.branch
    if isinstance(wanted, StartTree):
        if commit != wanted.commit:
            commit, branch = wanted.commit, None
        store.create(source, [*wanted.objects, *source.objects, *submodule_objects(source, wanted)])
        plan = plan_start_tree(source, wanted, store, tree)
    elif wanted is not None:
        commit, branch = resolve_revision(source, wanted), None
        store.create(source, source.objects)
        plan = plan_revision(source, commit, store, tree)
    else:
        inside = run_dir if source.top.resolve() in run_dir.resolve().parents else None
        plan = plan_working_tree(source, private, index_file, inside)
        store.create(source, plan.alternates)
        copy_working_tree(source, plan, tree)
    recorded = {*plan.present, *plan.filtered, *plan.to_hash, *plan.inner, *plan.inner_to_hash}
    extra = copy_extra(source, extra_paths, tree, recorded)
    recorder = Recorder(tree, store, extra)
    base_tree, dirty = _record_base(source, commit, plan, store, recorder, isinstance(wanted, str))
    alternates = [str(path) for path in source.objects]
    mounts: tuple[Mount, ...] = ()
    if objects_inside is not None:
        alternates = [objects_inside, *(f"{objects_inside}-{n}" for n in range(1, len(source.objects)))]
        mounts = tuple(Mount(path, where) for path, where in zip(source.objects, alternates, strict=True))
    make_copy_repository(
        source,
        root,
        commit=commit,
        branch=branch,
        alternates=alternates,
        absent=plan.absent,
    )
    if owner is not None:
        _give_tree(root / ".git", owner)
    recorder.trust_disk()
    base = BaseState(
        repository=source.top,
        commit=commit,
        tree=base_tree,
        dirty=dirty,
        branch=branch,
        notes=(*source.notes, *plan.notes),
    )
    return Parts(base, tree, store, recorder, mounts, Unrecorded(tree, run_dir / "unrecorded"))


def _record_base(
    source: Source, commit: str | None, plan: Plan, store: Store, recorder: Recorder, clean: bool
) -> tuple[str, bool]:
    """Records the starting tree; returns it and whether it differs from the commit's tree."""
    if not clean:
        store.load({**plan.present, **plan.absent, **plan.filtered, **plan.gitlinks})
    recorder.begin(plan.present, plan.absent, plan.filtered)
    tree = recorder.add(plan.to_hash)
    dirty = tree != (
        source.git.run_sync("rev-parse", f"{commit}^{{tree}}").text() if commit is not None else ""
    )
    if plan.gitlinks:
        recorder.forget(plan.gitlinks)
        tree = recorder.add(plan.inner_to_hash, known=plan.inner)
    recorder.base_is_here()
    return tree, dirty


def _give_tree(directory: Path, owner: tuple[int, int]) -> None:
    os.chown(directory, *owner)
    for path in directory.rglob("*"):
        os.chown(path, *owner, follow_symlinks=False)
