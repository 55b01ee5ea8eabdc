"""Small real repositories and the real command, run as a person would."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WHIMBREL = [sys.executable, "-m", "whimbrel.app.cli"]

TALLY = """\
\"\"\"Counting things.\"\"\"


def tally(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_common(words):
    best, most = None, 0
    for word, count in tally(words).items():
        if count < most:
            best, most = word, count
    return best
"""

TEST_TALLY = """\
import unittest

from tally import most_common, tally


class TallyTest(unittest.TestCase):
    def test_words_are_counted(self):
        self.assertEqual(tally(["a", "b", "a"]), {"a": 2, "b": 1})

    def test_nothing_is_most_common_in_nothing(self):
        self.assertIsNone(most_common([]))

    def test_the_most_frequent_word_wins(self):
        self.assertEqual(most_common(["a", "b", "b"]), "b")
        self.assertEqual(most_common(["c", "c", "b"]), "c")
"""


@dataclass
class Repo:
    """A git repository on disk."""

    root: Path

    def git(self, *arguments: str) -> str:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", *arguments],
            cwd=self.root, env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    def write(self, **files: str) -> Repo:
        for name, text in files.items():
            path = self.root / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self

    def commit(self, message: str = "state") -> Repo:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self

    def fingerprint(self) -> str:
        """Hash over every file of the tree and of ``.git``: names, bytes and modes."""
        digest = hashlib.sha256()
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                name = path.relative_to(self.root).as_posix()
                digest.update(f"{name} {path.stat().st_mode:o}\0".encode() + path.read_bytes())
        return digest.hexdigest()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """An empty git repository."""
    root = tmp_path / "project"
    root.mkdir()
    made = Repo(root)
    made.git("init", "--quiet", "--initial-branch=main")
    return made


@pytest.fixture
def buggy(repo: Repo) -> Repo:
    """One failing test, whose cause is a wrong comparison."""
    return repo.write(**{"tally.py": TALLY, "test_tally.py": TEST_TALLY}).commit()


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with homes and state of its own."""
    places = {}
    for name in ("HOME", "WHIMBREL_STATE_DIR", "WHIMBREL_CACHE_DIR"):
        place = tmp_path / name.lower()
        place.mkdir()
        places[name] = str(place)
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in ("PATH", "LANG", "PYENV_ROOT", "TMPDIR") or key.startswith("SSL_")
    }
    return {**kept, **places}


@dataclass
class Ran:
    """What a finished command left."""

    code: int
    out: str
    err: str
    output: Path

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.output / "result.json").read_text(encoding="utf-8"))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def fix(tmp_path: Path, home: dict[str, str]) -> Callable[..., Ran]:
    """``fix(repo, "--tests", ...)`` runs fix-issue to its end (host sandbox unless told otherwise)."""

    def run(
        repository: Repo, *arguments: str, sandbox: str = "host", stdin: Any = subprocess.DEVNULL,
        timeout: float = 200, **environment: str,
    ) -> Ran:  # fmt: skip
        output = tmp_path / "out"
        command = [
            *WHIMBREL, "fix-issue", "--repo", str(repository.root), "--sandbox", sandbox,
            "--output", str(output), *arguments,
        ]  # fmt: skip
        done = subprocess.run(
            command, env={**home, **environment}, stdin=stdin, capture_output=True, text=True, timeout=timeout
        )
        return Ran(done.returncode, done.stdout, done.stderr, output)

    return run
