"""Small real repositories whose hooks are run by the real git."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

WHIMBREL = f"{sys.executable} -m whimbrel.app.cli"
GOOD = "def double(n):\n    return n + n\n"
BAD = "def double(n):\n    return n - n\n"
TEST = """\
import unittest

from double import double


class DoubleTest(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(3), 6)
"""

PROBE = """\
import hashlib, os, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from whimbrel.app.hook.changes import staged_change
from whimbrel.app.hook.context import read_context, scrub

context = read_context(os.environ, Path.cwd())
scrub(os.environ)
def checksum():
    return hashlib.sha256(context.index.read_bytes()).hexdigest() if context.index.exists() else "none"
before = checksum()
with TemporaryDirectory() as scratch:
    change = staged_change(context, Path(scratch))
assert checksum() == before
note = "\\n".join([change.start.tree, str(context.in_progress()), *sorted(change.paths)])
Path(sys.argv[1]).write_bytes(os.fsencode(note))
"""


@dataclass
class Project:
    """A repository, and an environment in which hooks find nothing of the person's."""

    root: Path
    env: dict[str, str]

    def run(self, command: str, *, cwd: Path | None = None, ok: bool = True, **env: str) -> str:
        """A shell command; what it wrote, on both streams."""
        done = subprocess.run(
            ["sh", "-ec", command], cwd=cwd or self.root, env={**self.env, **env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
            errors="surrogateescape",
        )  # fmt: skip
        assert (done.returncode == 0) is ok, done.stdout
        return done.stdout

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_py", ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def tree(self) -> str:
        return self.run("git rev-parse HEAD^{tree}").strip()

    def hook(self, script: str, name: str = "pre-commit") -> None:
        place = Path(self.run("git rev-parse --git-path hooks").strip())
        path = (self.root / place) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """One commit: a function and its test."""
    root = tmp_path / "proj ect"
    root.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "WHIMBREL_STATE_DIR": str(tmp_path / "state"),
        "WHIMBREL_CACHE_DIR": str(tmp_path / "cache"),
        "WHIMBREL_RUN_DIR": str(tmp_path / "runs"),
        "GIT_EDITOR": "true",
    }
    (tmp_path / "home").mkdir()
    made = Project(root, env)
    made.run("git init -q -b main; git config user.name T; git config user.email t@example.invalid")
    made.run("git config protocol.file.allow always")
    made.write(double_py=GOOD, test_double_py=TEST)
    made.run("git add -A; git commit -qm start")
    return made
