"""Real repositories and real virtual environments for the environment tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

PYTEST_AND_ITS_NEEDS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def git(directory: Path, *args: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *args],
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def in_git():
    return git


@pytest.fixture
def make_files():
    return write


@pytest.fixture(autouse=True)
def own_directories(tmp_path_factory, monkeypatch):
    """Cache, state and temporary places of these tests only."""
    place = tmp_path_factory.mktemp("home")
    place.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    return place


@pytest.fixture
def make_repository(tmp_path):
    """A committed repository of the given files; ``.venv`` is ignored in it."""

    def make(files: dict[str, str], name: str = "project") -> Path:
        root = tmp_path / name
        root.mkdir()
        write(root, {".gitignore": ".venv/\nvenv/\n*.egg-info/\n__pycache__/\n", **files})
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "Start")
        return root

    return make


@pytest.fixture
def make_venv():
    """A real virtual environment, with pytest copied from the running one when asked."""

    def make(place: Path, *, python: str | None = None, with_pytest: bool = True) -> Path:
        base = python or getattr(sys, "_base_executable", sys.executable)
        subprocess.run([base, "-m", "venv", "--without-pip", str(place)], check=True)
        if with_pytest:
            (site,) = place.glob("lib/python3*/site-packages")
            for name in PYTEST_AND_ITS_NEEDS:
                copy_distribution(name, site)
        return place

    return make


def copy_distribution(name: str, site: Path) -> None:
    distribution = metadata.distribution(name)
    for file in distribution.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(distribution.locate_file(file)), target)


@pytest.fixture
def real_python() -> Path:
    """The base interpreter of the running one, symlinks resolved."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def find_python(minor: int) -> str | None:
    """An interpreter of Python 3.``minor`` on this machine."""
    for path in sorted(Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*/bin/python")):
        return str(path)
    for name in (f"python3.{minor}",):
        found = shutil.which(name)
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    return None


@pytest.fixture
def python_of():
    return find_python
