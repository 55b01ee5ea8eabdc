"""Which state of a repository may steer a run, and whether the person trusts what it says.

In CI the files of a pull request are somebody else's words: there, instructions, skills and
server entries are read at the merge base with the target branch, which a pull request cannot
change. Trust is remembered per repository and content, as for a recipe.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import UsageError, WhimbrelError
from ...sandbox.base.git import Git
from ..trust import TrustStore
from .instructions import INSTRUCTION_NAMES, Instructions, read_instructions
from .tree import CommitTree, Refused, Tree, WorkingTree

SKILL_FOLDERS = (".whimbrel/skills", ".agents/skills")
SERVER_FILES = (".mcp.json", ".whimbrel/config.toml")
_ENVIRONMENT = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
_EXACT = "CI_MERGE_REQUEST_DIFF_BASE_SHA"
_MAX_FOLDERS = 200


@dataclass(frozen=True)
class Source:
    """Where steering files come from."""

    tree: Tree
    files: tuple[str, ...]
    """What is there and would steer, sorted."""
    contents: Mapping[str, bytes]
    """Of skills and server entries."""
    instructions: Mapping[str, Instructions]
    """Folder ("" is the root) -> what its instruction file says, imports included."""
    digest: str
    """Over names and contents; empty when there is nothing."""


async def choose_tree(
    repository: Path,
    *,
    revision: str | None,
    instructions_from: str | None,
    environ: Mapping[str, str],
    tell: Callable[[str, str], None],
) -> Tree | None:
    """The tree to read, or None when a target branch is named and cannot be found.

    Raises:
        UsageError: ``instructions_from`` names no commit.
    """
    git = Git(None, repository)
    head = revision or "HEAD"
    if instructions_from is not None:
        base = await _merge_base(git, head, instructions_from)
        if base is None:
            raise UsageError(f"--instructions-from {instructions_from}: there is no such commit here")
        return CommitTree(repository, base, f"{instructions_from} ({base[:10]})")
    target = next((environ[name] for name in _ENVIRONMENT if environ.get(name, "").strip()), "")
    if target:
        for name in (f"refs/remotes/origin/{target}", f"refs/heads/{target}", environ.get(_EXACT, "")):
            base = await _merge_base(git, head, name) if name else None
            if base is not None:
                return CommitTree(repository, base, f"{target} ({base[:10]})")
        tell(
            "warning",
            f"the target branch {target} is not in this clone, so no instruction files are used"
            " (fetch it, or give --instructions-from REV)",
        )
        return None
    if revision is not None:
        commit = await _commit(git, revision)
        return CommitTree(repository, commit) if commit else None
    return WorkingTree(repository)


async def survey(tree: Tree, folders: Iterable[str] = ()) -> Source:
    """What in the tree would steer: instruction files of the root and of ``folders``, skills, servers."""
    contents: dict[str, bytes] = {}
    wanted: list[str] = list(SERVER_FILES)
    for folder in SKILL_FOLDERS:
        wanted += await tree.list(folder)
    for path in wanted:
        try:
            data = await tree.read(path)
        except Refused:
            continue  # what is refused steers nothing
        if data is not None:
            contents[path] = data
    instructions: dict[str, Instructions] = {}
    for folder in dict.fromkeys(("", *folders)):
        found = await read_instructions(tree, folder)
        if found is not None:
            instructions[folder] = found
    texts = {item.path: item.text.encode("utf-8", "replace") for item in instructions.values()}
    everything = {**contents, **texts}
    if not everything:
        return Source(tree, (), {}, {}, "")
    digest = hashlib.sha256(b"steering\0")
    for path in sorted(everything):
        for part in (os.fsencode(path), everything[path]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return Source(tree, tuple(sorted(everything)), contents, instructions, digest.hexdigest())


def trusted(repository: Path, source: Source, *, trust: bool, tell: Callable[[str, str], None]) -> bool:
    """Whether the person agreed to exactly this; says so when files are left aside."""
    if not source.files:
        return False
    store = TrustStore()
    if trust:
        try:
            about = {"kind": "guidance", "files": list(source.files)}
            store.remember(repository, source.digest, about=about)
        except (WhimbrelError, OSError) as error:
            text = error.one_line() if isinstance(error, WhimbrelError) else str(error)
            tell("warning", f"trust holds for this run only: {text}")
        return True
    if store.is_trusted(repository, source.digest):
        return True
    shown = ", ".join(source.files[:3]) + (
        f" and {len(source.files) - 3} more" if len(source.files) > 3 else ""
    )
    tell("warning", f"{shown} found and ignored: not trusted (read it, then `whimbrel trust` or --trust)")
    return False


async def instruction_folders(repository: Path, tree: Tree) -> tuple[str, ...]:
    """Folders of the tree that hold an instruction file, without the root; bounded."""
    if isinstance(tree, CommitTree):
        listed = await Git(None, repository).run(
            "ls-tree", "-r", "-z", "--name-only", "--full-tree", tree.commit, check=False
        )
        names = (path.rpartition("/") for path in listed.fields())
        return tuple(sorted({folder for folder, _, name in names if folder and name in INSTRUCTION_NAMES}))[
            :_MAX_FOLDERS
        ]
    specs = [f":(top,glob)**/{name}" for name in INSTRUCTION_NAMES]
    listed = await Git(None, repository).run(
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *specs, check=False
    )
    if listed.exit_code != 0:
        return ()
    folders = {path.rpartition("/")[0] for path in listed.fields()}
    return tuple(sorted(folders - {""}))[:_MAX_FOLDERS]


async def _commit(git: Git, name: str) -> str | None:
    found = await git.run(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", check=False
    )
    return found.text() or None if found.exit_code == 0 else None


async def _merge_base(git: Git, head: str, name: str) -> str | None:
    commit, start = await _commit(git, name), await _commit(git, head)
    if commit is None:
        return None
    if start is None:
        return commit
    base = await git.run("merge-base", start, commit, check=False)
    # Without common history (a shallow clone), the branch's own commit is what no pull request wrote.
    return base.text().split("\n")[0] if base.exit_code == 0 and base.text() else commit
