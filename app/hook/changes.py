"""What is about to enter history: the tree, and the paths in which it differs from what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.git import Git
from ...sandbox.workspace import StartTree, freeze_index
from .context import HookContext

_GITLINK = "160000"


@dataclass(frozen=True)
class Change:
    """One tree to test."""

    start: StartTree
    paths: tuple[str, ...]
    everything: bool = False
    """It changes what paths do not tell, such as the commit of a submodule."""
    name: str = "this commit"


def staged_change(context: HookContext, scratch: Path) -> Change:
    """What committing the index would change, against HEAD.

    Raises:
        RepositoryError: unresolved conflicts.
    """
    git_dir = context.git_dir if context.told else None
    start = freeze_index(context.top, context.index, scratch, git_dir=git_dir, objects=context.objects)
    extra = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(str(path) for path in start.objects)}
    git = context.git().with_options(extra_env=extra)
    base = f"{start.commit}^{{tree}}" if start.commit else _empty_tree(git)
    paths, links = _differing(git, base, start.tree)
    return Change(start, paths, links)


def pushed_changes(
    context: HookContext, lines: Iterable[str], environ: Mapping[str, str], remote: str
) -> list[Change]:
    """The commits that a push would give the remote; deleted refs, tags and what it has already are left out.

    Args:
        lines: git's lines on standard input: local ref, local object, remote ref, remote object.
        environ: read where there are no lines: the pre-commit framework names the two ends in variables.
        remote: name of the remote, or its address.
    """
    git = context.git()
    pushed = [tuple(line.split(" ")) for line in lines if line.count(" ") == 3]
    if not pushed:
        local = environ.get("PRE_COMMIT_TO_REF") or "HEAD"
        known = environ.get("PRE_COMMIT_FROM_REF") or _upstream(git)
        pushed = [(environ.get("PRE_COMMIT_LOCAL_BRANCH") or "HEAD", local, "refs/heads/", known)]
    changes: dict[str, Change] = {}
    for name, local, remote_ref, known in pushed:
        commit = _commit(git, local)
        if commit is None or remote_ref.startswith("refs/tags/"):
            continue
        base = _commit(git, known) or _newest_known(git, commit, remote)
        tree = git.run_sync("rev-parse", f"{commit}^{{tree}}").text()
        if base == commit or tree in changes:
            continue
        paths, links = _differing(git, f"{base}^{{tree}}" if base else _empty_tree(git), tree)
        start = StartTree(tree, commit, context.objects, context.git_dir if context.told else None)
        changes[tree] = Change(start, paths, links, f"{name.removeprefix('refs/heads/')} ({commit[:10]})")
    return list(changes.values())


def _differing(git: Git, base: str, tree: str) -> tuple[tuple[str, ...], bool]:
    """Paths, and whether the commit of a submodule is among what differs."""
    command = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", base, tree)
    fields = git.run_sync(*command).fields()
    paths: list[str] = []
    links = False
    for heading, path in zip(fields[::2], fields[1::2], strict=False):
        links = links or _GITLINK in heading.lstrip(":").split(" ")[:2]
        paths.append(path)
    return tuple(paths), links


def _empty_tree(git: Git) -> str:
    return git.run_sync("hash-object", "-t", "tree", "--stdin", input=b"").text()


def _commit(git: Git, name: str) -> str | None:
    if not name.strip("0") or name.startswith("-"):
        return None
    found = git.run_sync("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    return found.text() if found.exit_code == 0 else None


def _upstream(git: Git) -> str:
    found = git.run_sync("rev-parse", "--verify", "--quiet", "@{upstream}^{commit}", check=False)
    return found.text() if found.exit_code == 0 else ""


def _newest_known(git: Git, commit: str, remote: str) -> str | None:
    """The nearest ancestor that the remote is known to have; the commit itself when it has that."""
    # A remote given by its address has no refs here; what any other remote has is as good a start.
    for pattern in (f"--remotes={remote}" if remote and "/" not in remote else "", "--remotes"):
        if not pattern:
            continue
        listed = git.run_sync("rev-list", "--boundary", commit, "--not", pattern, check=False).text()
        lines = listed.splitlines()
        if not lines:
            return commit
        boundary = [line[1:] for line in lines if line.startswith("-")]
        if boundary:
            return boundary[0]
    return None
