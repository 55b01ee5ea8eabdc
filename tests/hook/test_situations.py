"""What the hook takes for the commit is the commit, whatever git is doing; the index stays as it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from .conftest import PROBE, Project

SITUATIONS = {
    "plain": "echo a > a; git add a; git commit -qm x",
    "all": "echo '# more' >> double.py; git commit -qam x",
    "partial": "echo '#' >> double.py; echo b > b; git add b; git commit -qm x double.py",
    "partly-staged": "echo staged > a; git add a; echo 'not staged' >> a; git commit -qm x",
    "removed-from-disk": "echo a > a; git add a; rm a; git commit -qm x",
    "amend": "echo a > a; git add a; git commit -q --amend -m y",
    "amend-message": "git commit -q --amend -m y",
    "empty": "git commit -q --allow-empty -m x",
    "deletion": "git rm -q test_double.py; git commit -qm x",
    "rename-and-mode": "git mv double.py twice.py; chmod +x twice.py; git add -A; git commit -qm x",
    "subfolder": "mkdir -p in/ner; echo a > in/ner/a; git add -A; cd in/ner; git commit -qm x",
    "intent-to-add": "echo i > i; git add -N i; echo a > a; git add a; git commit -qm x",
    "split-index": "git update-index --split-index; echo a > a; git add a; git commit -qm x",
    "odd-names": "printf a > 'sp ace'; printf b > \"$(printf 'new\\nline')\"; printf c > 'ünï-文'; "
    "printf d > \"$(printf 'la\\351')\"; git add -A; git commit -qm x",
    "merge": "git checkout -q -b side; echo s > s; git add s; git commit -qm s --no-verify; "
    "git checkout -q main; echo m > m; git add m; git commit -qm m --no-verify; "
    "git merge -q --no-commit side; git commit -qm merged",
    "cherry-pick": "git checkout -q -b side; echo s > s; git add s; git commit -qm s --no-verify; "
    "git checkout -q main; git cherry-pick --no-commit side; git commit -qm picked",
    "unborn-branch": "git checkout -q --orphan fresh; git rm -qrf --cached .; git add double.py; git commit -qm x",
    "sparse": "mkdir far; echo f > far/f; git add -A; git commit -qm f --no-verify; "
    "git sparse-checkout set --cone near; echo a > a; git add a; git commit -qm x",
    "named-index": "cp .git/index ../other; export GIT_INDEX_FILE=$PWD/../other; echo a > a; git add a; git commit -qm x",
    "objects-elsewhere": "mkdir ../objects; export GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/../objects; "
    "echo a > a; git add a; git commit -qm x",
}


def probe(project: Project, tmp_path: Path) -> Path:
    """Installs a hook that notes what it takes for the commit; returns its note."""
    program, note = tmp_path / "probe.py", tmp_path / "note"
    program.write_text(PROBE)
    project.hook(f"exec {sys.executable} {program} {note}")
    return note


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_tested_is_what_is_committed(name: str, project: Project, tmp_path: Path) -> None:
    note = probe(project, tmp_path)
    before = project.tree()
    project.run(SITUATIONS[name])
    tree, going_on, *paths = note.read_bytes().split(b"\n")
    assert tree.decode() == project.tree()
    assert going_on == b""
    if name == "odd-names":
        assert b"la\xe9" in paths
    elif name in ("amend-message", "empty"):
        assert not paths and project.tree() == before
    project.run("git fsck --strict; git status; unset GIT_INDEX_FILE; git fsck --strict")


def test_a_linked_worktree_has_its_own_index(project: Project, tmp_path: Path) -> None:
    note = probe(project, tmp_path)
    project.run(
        "git worktree add -q '../linked' -b linked; cd ../linked; echo a > a; git add a; git commit -qm x"
    )
    tree = project.run("git rev-parse linked^{tree}").strip()
    assert note.read_text().split("\n") == [tree, "", "a"]
    project.run("git fsck --strict; git status", cwd=tmp_path / "linked")


def test_a_repository_apart_from_its_files_is_found_by_gits_variables(
    project: Project, tmp_path: Path
) -> None:
    note = probe(project, tmp_path)
    project.run("mv .git ../apart.git")
    apart = {"GIT_DIR": "../apart.git", "GIT_WORK_TREE": "."}
    project.run("echo a > a; git add a; git commit -qm x", **apart)
    tree = project.run("git rev-parse HEAD^{tree}", **apart).strip()
    assert note.read_text().split("\n") == [tree, "", "a"]


def test_a_rebase_is_seen(project: Project, tmp_path: Path) -> None:
    note = probe(project, tmp_path)
    project.run(
        "git checkout -q -b side; echo s > s; git add s; git commit -qm s --no-verify;"
        "git checkout -q main; echo t > s; git add s; git commit -qm t --no-verify; git checkout -q side"
    )
    project.run("git rebase -q main", ok=False)
    project.run("echo both > s; git add s; git commit -qm both")
    assert note.read_text().split("\n")[1] == "a rebase"
    project.run("git rebase --continue; git fsck --strict")


def test_the_commit_of_a_submodule_and_a_commit_inside_one(project: Project, tmp_path: Path) -> None:
    project.run(
        "git init -q -b main ../part; cd ../part; echo p > p; git add p;"
        "git -c user.name=T -c user.email=t@example.invalid commit -qm p"
    )
    note = probe(project, tmp_path)
    project.run("git -c protocol.file.allow=always submodule --quiet add ../part part; git commit -qm x")
    assert note.read_text().split("\n") == [project.tree(), "", ".gitmodules", "part"]
    inner = Project(project.root / "part", project.env)
    inner.run("git config user.name T; git config user.email t@example.invalid")
    inner.hook(f"exec {sys.executable} {tmp_path / 'probe.py'} {note}")
    inner.run("echo q > q; git add q; git commit -qm q")
    assert note.read_text().split("\n") == [inner.tree(), "", "q"]


def test_conflicts_that_are_left_are_told(project: Project, tmp_path: Path) -> None:
    from whimbrel.app.hook.changes import staged_change
    from whimbrel.app.hook.context import read_context
    from whimbrel.sandbox.base.errors import RepositoryError

    project.run(
        "git checkout -q -b side; echo s > s; git add s; git commit -qm s; git checkout -q main;"
        "echo t > s; git add s; git commit -qm t; git merge -q side || true"
    )
    with pytest.raises(RepositoryError, match="the index cannot be committed"):
        staged_change(read_context({}, project.root), tmp_path)


def test_no_repository_is_told(tmp_path: Path) -> None:
    from whimbrel.app.hook.context import read_context
    from whimbrel.sandbox.base.errors import RepositoryError

    with pytest.raises(RepositoryError, match="not in a git repository"):
        read_context({"GIT_DIR": "gone"}, tmp_path)


def test_scrubbing_leaves_nothing_of_git_and_a_home() -> None:
    from whimbrel.app.hook.context import scrub

    environment = {"GIT_DIR": "x", "GIT_INDEX_FILE": "y", "PATH": os.environ["PATH"]}
    scrub(environment)
    assert not [name for name in environment if name.startswith("GIT_")]
    assert Path(environment["HOME"]).is_absolute()
