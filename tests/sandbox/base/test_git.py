"""Running git: scrubbed, quiet, unable to run the repository's code."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import RepositoryError
from whimbrel.sandbox.base.git import Git, redact_url_secrets


def shell(command: str, cwd: Path) -> str:
    done = subprocess.run(["bash", "-ec", command], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    shell(
        "git init -q . && git config user.name n && git config user.email e && echo 1 > a"
        " && git add a && git commit -qm one",
        root,
    )
    return root


async def test_names_with_any_characters_arrive_unquoted(repository: Path) -> None:
    names = ["héllo.txt", "笔记.md", "tab\t😀", "new\nline", os.fsdecode(b"bad\xff")]
    for name in names:
        (repository / name).write_text("x")
    result = await Git(None, repository).run("ls-files", "-z", "--others")
    assert sorted(result.fields()) == sorted(names)


def test_git_variables_of_the_caller_have_no_effect(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = shell("git rev-parse HEAD", repository).strip()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", "/")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'alias.x=y'")
    assert Git(None, repository).run_sync("rev-parse", "HEAD").text() == expected


def test_git_elsewhere_on_the_path_is_found_and_no_git_is_said(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shell("command -v git", tmp_path).strip()
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "git").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    (odd / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{odd}:/bin")
    assert Git(None, repository).run_sync("rev-parse", "--show-prefix").exit_code == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RepositoryError, match="git was not found on PATH") as caught:
        Git(None, repository).run_sync("status")
    assert "install git" in caught.value.hint


async def test_a_failing_fetch_shows_no_credentials(repository: Path) -> None:
    url = "http://user:s3cret@localhost:1/x.git?access_token=s3cret"
    with pytest.raises(RepositoryError) as caught:
        await Git(None, repository).run("fetch", url)
    assert "s3cret" not in str(caught.value)
    assert "localhost" in str(caught.value)
    assert redact_url_secrets("https://ghp_x@host/a b://c") == "https://***@host/a b://c"


def test_hooks_and_configured_programs_do_not_run(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (repository / ".git/hooks").mkdir(exist_ok=True)
        (repository / ".git/hooks" / hook).symlink_to(trap)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.editor", "core.askPass"):
        shell(f"git config {key} {trap}", repository)
    git = Git(None, repository)
    (repository / "a").write_text("2\n")
    git.run_sync("status")
    git.run_sync("-c", "user.name=x", "commit", "-qam", "two")
    (repository / "a").write_text("3\n")
    assert b"+3" in git.run_sync("diff", "--no-ext-diff").stdout
    git.run_sync("checkout", "-q", "-b", "other")
    assert not (tmp_path / "ran").exists()


def test_reading_does_not_touch_the_index(repository: Path) -> None:
    os.utime(repository / "a", (1, 1))
    before = (repository / ".git/index").read_bytes()
    Git(None, repository).run_sync("status", "--porcelain")
    assert (repository / ".git/index").read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_repository_of_somebody_else_is_readable(repository: Path) -> None:
    shell(f"chown -R 12345:12345 {repository}", repository)
    assert Git(None, repository).run_sync("rev-parse", "--is-bare-repository").text() == "false"


async def test_time_limits_and_cancelling_end_git_and_what_it_started(repository: Path) -> None:
    pid_file = repository / "pid"
    git = Git(None, repository, config={"alias.hang": "!echo $$ > pid; sleep 500"})
    with pytest.raises(RepositoryError, match=r"git hang did not end within 0\.5 s"):
        await git.run("hang", timeout_s=0.5)
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
    pid_file.unlink()
    task = asyncio.ensure_future(git.run("hang"))
    for _ in range(1000):
        if pid_file.exists() and pid_file.read_text().strip():
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


def test_a_directory_that_is_gone_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="is not a directory"):
        Git(None, tmp_path / "gone").run_sync("status")
    with pytest.raises(RepositoryError, match="git status failed: fatal: not a git repository"):
        Git(None, tmp_path).run_sync("status")


def test_a_git_that_cannot_be_kept_from_running_a_repositorys_code_is_refused(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = tmp_path / "old"
    old.mkdir()
    ran = tmp_path / "ran"
    (old / "git").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "git version 2.25.1" && exit\ntouch {ran}\n'
    )
    (old / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    with pytest.raises(RepositoryError, match=r"has version 2\.25"):
        Git(None, repository).run_sync("status")
    assert not ran.exists()
