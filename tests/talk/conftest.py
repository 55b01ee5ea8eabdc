"""`whimbrel run` on a small real repository, with a model scripted over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.cli import main

from tests.fix.conftest import Ran, Repo, home, repo
from tests.mock_server import (
    MockServer,
    Reply,
    Request,
    arguments_are_json,
    completion,
    every_call_answered,
)

__all__ = ["home", "repo"]

CALC = "def add(a, b):\n    return a - b\n"
TESTS = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"

Answer = Callable[[Request], Reply]


@pytest.fixture
def calc(repo: Repo) -> Repo:
    return repo.write(**{"calc.py": CALC, "tests__test_calc.py": TESTS}).commit()


def server(script: Any, *validators: Any) -> MockServer:
    """A strict server: calls answered, arguments JSON."""
    return MockServer(script, validators=(every_call_answered, arguments_are_json, *validators))


def edits(path: str, old: str, new: str, *, call: str = "c1", reasoning: str | None = None) -> Reply:
    arguments = {"path": path, "old": old, "new": new}
    return completion(calls=[(call, "edit", arguments)], reasoning=reasoning)


@pytest.fixture
def whimbrel(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The console script's own entry point, in this process: loading a client costs a second each time."""
    for name in list(os.environ):
        if name.startswith(("WHIMBREL_", "GIT_")) or name == "HOME":
            monkeypatch.delenv(name)
    for name, value in home.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        with monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main(list(arguments))
        out, err = capfd.readouterr()
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def talk(tmp_path: Path, whimbrel: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Ran]:
    """``talk(repo, "prompt", "--resume", ...)`` runs a turn to its end in the host sandbox."""

    def run(repository: Repo, *arguments: str, **environment: str) -> Ran:
        done = whimbrel(*options(repository, tmp_path / "out"), *arguments, **environment)
        return Ran(done.returncode, done.stdout, done.stderr, tmp_path / "out")

    return run


def options(repository: Repo, output: Path) -> list[str]:
    return [
        "run", "--repo", str(repository.root), "--sandbox", "host", "--no-build",
        "--python", sys.executable, "--output", str(output),
    ]  # fmt: skip


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
