"""A capable model repairs three repositories end to end, through every door."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.fix.conftest import Ran, Repo, fix, home, repo

from .strong_model import BACKUP, CASES, Case, serve

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
