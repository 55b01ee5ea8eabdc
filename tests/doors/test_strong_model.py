"""A capable model repairs three repositories end to end, through every door."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fix.conftest import WHIMBREL, Ran, Repo, fix, home, repo

from .strong_model import BACKUP, CASES, LEDGER, QUEUE, Case, serve

__all__ = ["fix", "home", "repo"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("sandbox", ["host", pytest.param("bwrap", marks=pytest.mark.bwrap)])
def test_fix_issue(case: Case, sandbox: str, repo: Repo, fix: Callable[..., Ran]):
    case.write(repo)
    before = repo.fingerprint()
    field_name = "reasoning" if case is BACKUP else "reasoning_content"
    with serve(case, field_name=field_name) as server:
        ran = fix(
            repo, "--issue", case.issue, "--model", server.model("strong"), "--python", sys.executable,
            *case.options, sandbox=sandbox,
        )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    result = ran.result
    assert result["status"] == "fixed"
    assert {file["path"] for file in result["files"]} == set(case.patched)
    for path, line in case.patched.items():
        assert any(line in added for added in result["patch"].splitlines() if added.startswith("+")), path
    assert result["claimed"] == case.answer
    assert result["steps"] == len(case.steps) + 1 == len(server.requests)
    assert result["usage"]["input_tokens"] == 100 * len(server.requests)
    assert repo.fingerprint() == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_run_and_apply(case: Case, repo: Repo, home: dict[str, str], tmp_path: Path):
    case.write(repo)
    with serve(case, field_name="reasoning") as server:
        done = subprocess.run(
            [*WHIMBREL, "run", f"{case.issue} Repair it.", "--repo", str(repo.root), "--sandbox", "host",
             "--python", sys.executable, "--model", server.model("strong"), "--output", str(tmp_path / "out"),
             "--apply", *case.options],
            env=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == case.answer
    for path, line in case.patched.items():
        assert line in (repo.root / path).read_text()
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    # The last test run in the turn was on the final state, and it is told as evidence, not as a proof.
    assert result["status"] == "answered" and result["verified"] is False
    assert result["tests"][-1]["on_final_tree"] and result["tests"][-1]["exit_code"] == 0


@pytest.mark.parametrize("case", [LEDGER, QUEUE], ids=lambda case: case.name)
def test_the_git_hook(case: Case, repo: Repo, home: dict[str, str]):
    case.write(repo)
    first, path = next(iter(case.patched)), repo.root / next(iter(case.patched))
    path.write_text(path.read_text() + "\n\n# staged\n")
    repo.git("add", first)
    index = (repo.root / ".git" / "index").read_bytes()
    with serve(case) as server:
        done = subprocess.run(
            [*WHIMBREL, "hook", "run", "pre-commit", "--sandbox", "host", "--python", sys.executable,
             "--model", server.model("strong"), "--max-time", "2m"],
            cwd=repo.root, env=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150,
        )  # fmt: skip
        assert done.returncode == 4, done.stderr
        assert len(server.requests) == len(case.steps) + 1
    assert (repo.root / ".git" / "index").read_bytes() == index
    taken = subprocess.run(
        [*WHIMBREL, "apply", "--repo", str(repo.root)], env=home, capture_output=True, text=True
    )
    assert taken.returncode == 0, taken.stderr
    for name, line in case.patched.items():
        assert line in (repo.root / name).read_text()
