"""The whole command on repositories without Python: a scripted model repairs them, in host and bubblewrap."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mock_server import MockServer, Request, arguments_are_json, completion, every_call_answered
from tests.repo.testing.test_toolchains import GO, NODE, Example, needs

from .conftest import Ran, Repo


def write(repo: Repo, example: Example) -> Repo:
    for name, text in example.files.items():
        path = repo.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return repo.commit()


def repairing(example: Example) -> Callable[[Request], Any]:
    """Looks, edits wrongly, sees that it fails, edits rightly, tests."""
    edit: dict[str, Any] = {"path": example.code}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("run_tests", {"tests": [example.failing]}),
        ("read", {"path": example.code}),
        ("edit", {**edit, "old": example.wrong, "new": "a * b"}),
        ("run_tests", {}),
        ("edit", {**edit, "old": "a * b", "new": example.right}),
        ("run_tests", {}),
    ]

    def script(request: Request):
        number = sum(message["role"] == "assistant" for message in request.messages)
        return (
            completion(calls=[(f"c{number}", *steps[number])])
            if number < len(steps)
            else completion(text="Done.")
        )

    return script


@pytest.mark.parametrize(
    ("example", "sandbox"),
    [
        pytest.param(NODE, "host", id="node-host"),
        pytest.param(NODE, "bwrap", id="node-bwrap", marks=pytest.mark.bwrap),
        pytest.param(GO, "bwrap", id="go-bwrap", marks=pytest.mark.bwrap),
    ],
)
def test_a_scripted_model_repairs_a_repository_without_python(
    example: Example, sandbox: str, repo: Repo, fix: Callable[..., Ran]
):
    needs(*example.adapter.toolchain)
    write(repo, example)
    before = repo.fingerprint()
    with MockServer(repairing(example), validators=[every_call_answered, arguments_are_json]) as server:
        ran = fix(repo, "--model", server.model(), sandbox=sandbox)
    assert ran.code == 0, ran.out + ran.err
    result = ran.result
    assert example.failing in result["target_tests"] and result["environment"]["python"] == ""
    assert f"+  return {example.right}" in result["patch"].replace("\t", "  ")
    assert result["tests_after"]["counts"]["passed"] >= 2 and result["tests_after"]["counts"]["skipped"] == 1
    texts = [message["content"] for message in server.requests[-1].messages if message["role"] == "tool"]
    assert f"FAILED {example.failing}" in texts[0] and "1 failed" in texts[3].lower() or "failed" in texts[3]
    assert "passed" in texts[5] and "failed" not in texts[5].split("\n")[0]
    first = server.requests[0].messages[1]["content"]
    assert f"tests run with {example.adapter.name}, " in first
    assert repo.fingerprint() == before


def test_the_search_that_knows_only_python_says_so_and_does_not_fail(repo: Repo, fix: Callable[..., Ran]):
    needs("node")
    write(repo, NODE)
    ran = fix(repo)
    assert ran.code == 4, ran.out + ran.err
    assert "internal" not in ran.out


def test_a_toolchain_that_is_missing_is_named_with_its_own_exit_code(
    repo: Repo, fix: Callable[..., Ran], tmp_path: Path
):
    write(repo, GO)
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("git", "sh", "rm", "mktemp", "env"):
        (folder / program).symlink_to(str(shutil.which(program)))
    ran = fix(repo, PATH=str(folder))
    assert ran.code == 11, ran.out
    assert "the tests need go, which is not installed here" in ran.out and "golang-go" in ran.out


@pytest.mark.docker
def test_an_image_without_the_toolchain_is_named(repo: Repo, fix: Callable[..., Ran]):
    write(repo, NODE)
    ran = fix(repo, sandbox="docker")
    assert ran.code == 11, ran.out
    assert "the tests need node, which the docker sandbox's image does not have" in ran.out


def test_dependencies_that_git_ignores_are_there_and_missing_ones_are_named(
    repo: Repo, fix: Callable[..., Ran]
):
    needs("node")
    write(repo, NODE)
    code = repo.root / "sum.js"
    code.write_text("import { minus } from 'helper';\n" + code.read_text().replace("a - b", "minus(a, b)"))
    (repo.root / ".gitignore").write_text("node_modules/\n")
    repo.commit()
    ran = fix(repo)
    assert ran.code == 11 and "the package helper is not installed" in ran.out, ran.out
    package = repo.root / "node_modules" / "helper"
    package.mkdir(parents=True)
    (package / "package.json").write_text(
        json.dumps({"name": "helper", "type": "module", "exports": "./i.js"})
    )
    (package / "i.js").write_text("export const minus = (a, b) => a - b;\n")
    script = completion(text="I give up.")
    with MockServer(lambda request: script) as server:
        ran = fix(repo, "--model", server.model())
    assert ran.code == 4 and ran.result["target_tests"] == [NODE.failing], ran.out
    assert not ran.result["files"] and os.listdir(repo.root / "node_modules") == ["helper"]
