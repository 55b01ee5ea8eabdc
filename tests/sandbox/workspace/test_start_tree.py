"""A start from an index or a commit: exactly its files, recorded nowhere in the user's repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import RepositoryError
from whimbrel.sandbox.workspace import StartTree, Workspace, freeze_index

from .conftest import shell, state_of


async def start(repository: Path, place: Path, index: Path | None = None) -> tuple[Workspace, StartTree]:
    place.mkdir()
    frozen = freeze_index(repository, index or repository / ".git/index", place)
    return await Workspace.create(repository, place / "run", start=frozen), frozen


async def test_the_copy_holds_what_is_staged_and_nothing_else(repository: Path, tmp_path: Path) -> None:
    shell(
        "echo staged >> src/a.py; git add src/a.py; echo more >> src/a.py; rm src/b.py; echo u > untracked;"
        "echo n > new; git add new; rm new; echo i > later; git add -N later; chmod +x src/b.py 2>/dev/null || true",
        repository,
    )
    before = state_of(repository)
    workspace, frozen = await start(repository, tmp_path / "place")
    root = workspace.root
    assert (root / "src/a.py").read_text().endswith("staged\n")
    assert (root / "src/b.py").is_file() and (root / "new").read_text() == "n\n"
    assert not (root / "untracked").exists() and not (root / "later").exists()
    assert workspace.base.tree == frozen.tree and workspace.base.dirty
    assert await workspace.diff() == b""
    (root / "src/a.py").write_text("changed\n")
    assert await workspace.patch_applies(await workspace.diff())
    assert "src/a.py" in shell("git status --short", root)
    await workspace.destroy()
    assert state_of(repository) == before
    shell("git fsck --strict", repository)


async def test_files_of_a_filter_are_there_as_programs_see_them(repository: Path, tmp_path: Path) -> None:
    shell(
        "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z';"
        "echo '*.up filter=up' > .gitattributes; echo small > x.up; git add -A; git commit -qm filter;"
        "echo s >> src/a.py; git add src/a.py",
        repository,
    )
    assert shell("git show HEAD:x.up", repository) == "SMALL\n"
    workspace, frozen = await start(repository, tmp_path / "place")
    assert (workspace.root / "x.up").read_text() == "small\n"
    assert workspace.base.tree == frozen.tree and await workspace.diff() == b""


async def test_a_submodule_is_filled_with_the_commit_that_is_named(repository: Path, tmp_path: Path) -> None:
    shell(
        "git init -q ../part; cd ../part; git config user.name T; git config user.email t@example.invalid;"
        "echo one > p; git add p; git commit -qm one",
        repository,
    )
    shell(
        "git -c protocol.file.allow=always submodule --quiet add ../part part; git commit -qm sub", repository
    )
    # Its files and its own commit have moved on; what the index names counts.
    shell(
        "cd part; git config user.name T; git config user.email t@example.invalid;"
        "echo two > p; git commit -qam two; echo three > p",
        repository,
    )
    workspace, _ = await start(repository, tmp_path / "place")
    assert (workspace.root / "part/p").read_text() == "one\n"
    assert await workspace.diff() == b""
    (workspace.root / "part/p").write_text("x\n")
    assert [file.path for file in await workspace.changed_files()] == ["part/p"]
    await workspace.destroy()
    shell("rm -rf part/.git part/p", repository)
    workspace, _ = await start(repository, tmp_path / "other")
    assert any("submodule part" in note for note in workspace.base.notes)
    assert not (workspace.root / "part/p").exists()


async def test_the_tree_of_another_commit_stands_on_that_commit(repository: Path, tmp_path: Path) -> None:
    commit = shell("git rev-parse v1.0^{commit}", repository).strip()
    tree = shell("git rev-parse v1.0^{tree}", repository).strip()
    workspace = await Workspace.create(repository, tmp_path / "run", start=StartTree(tree, commit))
    assert (workspace.base.commit, workspace.base.tree, workspace.base.dirty) == (commit, tree, False)
    assert workspace.base.branch is None


def test_an_index_of_a_merge_that_is_not_resolved_is_refused(repository: Path, tmp_path: Path) -> None:
    shell(
        "git checkout -q -b side; echo s > c; git add c; git commit -qm s; git checkout -q -;"
        "echo t > c; git add c; git commit -qm t; git merge side || true",
        repository,
    )
    with pytest.raises(RepositoryError, match="cannot be committed"):
        freeze_index(repository, repository / ".git/index", tmp_path)
