"""Facts of real repositories in all the states people leave them in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from whimbrel.app.repo.facts import blame_recency, recent_changes, repository_facts
from whimbrel.sandbox.base.errors import RepositoryError


def git(directory: Path, *args: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(
        ["git", *identity, *args],
        cwd=directory,
        env={**environment, **variables},
        capture_output=True,
        text=True,
    )
    if done.returncode and args[0] not in ("merge", "rebase"):
        raise AssertionError(done.stderr)
    return done.stdout.strip()


def commit(root: Path, message: str, when: int) -> str:
    stamp = f"{when} +0000"
    git(root, "add", "-A")
    git(root, "commit", "-qm", message, GIT_COMMITTER_DATE=stamp, GIT_AUTHOR_DATE=stamp)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    return place


async def test_a_clean_repository(root):
    (root / "a.txt").write_text("one\n")
    head = commit(root, "First: with a colon", 1_700_000_000)
    (root / "sub").mkdir()
    facts = await repository_facts(root / "sub")
    assert facts.root == root
    assert (facts.branch, facts.head, facts.subject) == ("main", head, "First: with a colon")
    assert facts.committed_at == 1_700_000_000
    assert not facts.dirty
    assert facts.one_line() == f"main at {head[:10]}"


async def test_odd_names_staged_renames_and_untracked_files_are_counted_right(root):
    (root / "old name.txt").write_text("line\n" * 20)
    (root / "b.txt").write_text("b\n")
    commit(root, "First", 1_700_000_000)
    git(root, "mv", "old name.txt", "né w\n.txt")
    (root / "b.txt").write_text("changed\n")
    (root / "笔记.md").write_text("new\n")
    facts = await repository_facts(root)
    assert set(facts.modified) == {"né w\n.txt", "b.txt"}
    assert facts.untracked == ("笔记.md",)
    assert "(2 modified, 1 untracked)" in facts.one_line()


async def test_a_repository_without_commits(root):
    facts = await repository_facts(root)
    assert facts.head is None
    assert facts.one_line() == "main, no commit yet"
    assert await recent_changes(root, ["a.txt"]) == {"a.txt": ()}


async def test_a_detached_head_and_a_merge_in_progress(root):
    (root / "a.txt").write_text("one\n")
    commit(root, "First", 1_700_000_000)
    git(root, "checkout", "-q", "-b", "side")
    (root / "a.txt").write_text("side\n")
    side = commit(root, "Side", 1_700_000_100)
    git(root, "checkout", "-q", "main")
    (root / "a.txt").write_text("main\n")
    commit(root, "Main", 1_700_000_200)
    git(root, "merge", "side")
    facts = await repository_facts(root)
    assert facts.in_progress == "merge"
    assert facts.modified == ("a.txt",)
    git(root, "merge", "--abort")
    git(root, "checkout", "-q", side)
    facts = await repository_facts(root)
    assert facts.branch is None
    assert facts.one_line().startswith("detached head at")


async def test_credentials_in_remotes_are_not_shown(root):
    git(root, "remote", "add", "origin", "https://ada:hunter2@example.org/x.git")
    git(root, "remote", "add", "backup", "git@example.org:x.git")
    facts = await repository_facts(root)
    assert "hunter2" not in str(facts)
    assert facts.remotes["origin"].endswith("example.org/x.git")
    assert facts.remotes["backup"] == "git@example.org:x.git"


async def test_the_callers_git_variables_do_not_lead_elsewhere(root, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    facts = await repository_facts(root)
    assert (facts.root, facts.branch) == (root, "main")


async def test_looking_at_a_repository_runs_nothing_it_configures_and_writes_nothing(root, tmp_path):
    (root / "a.txt").write_text("one\n")
    commit(root, "First", 1_700_000_000)
    proof = tmp_path / "ran"
    git(root, "config", "core.fsmonitor", f"touch {proof}; false")
    git(root, "config", "diff.external", f"touch {proof}")
    index = (root / ".git/index").read_bytes()
    os.utime(root / "a.txt", (1, 1))
    await repository_facts(root)
    await blame_recency(root, "a.txt")
    assert not proof.exists()
    assert (root / ".git/index").read_bytes() == index


async def test_recent_changes_are_newest_first_and_bounded(root):
    for number in range(4):
        (root / "a.txt").write_text(f"{number}\n")
        commit(root, f"Change {number}", 1_700_000_000 + number)
    (root / "b.txt").write_text("b\n")
    commit(root, "Other file", 1_700_000_100)
    changes = await recent_changes(root, ["a.txt", "b.txt", "none.txt"], limit=2)
    assert [change.subject for change in changes["a.txt"]] == ["Change 3", "Change 2"]
    assert [change.when for change in changes["b.txt"]] == [1_700_000_100]
    assert changes["none.txt"] == ()


async def test_blame_tells_old_lines_from_new_and_uncommitted_ones(root):
    (root / "a.txt").write_text("one\ntwo\n")
    first = commit(root, "First", 1_700_000_000)
    (root / "a.txt").write_text("one\nTWO\n")
    second = commit(root, "Second", 1_700_000_500)
    (root / "a.txt").write_text("one\nTWO\nthree\n")
    origins = await blame_recency(root, "a.txt")
    assert (origins[1].commit, origins[1].when) == (first, 1_700_000_000)
    assert (origins[2].commit, origins[2].when) == (second, 1_700_000_500)
    assert origins[3].commit == ""
    assert await blame_recency(root, "missing.txt") == {}


async def test_a_directory_without_a_repository_is_a_clear_error(tmp_path):
    with pytest.raises(RepositoryError, match="not inside the work tree"):
        await repository_facts(tmp_path)
