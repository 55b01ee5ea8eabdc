"""Interpreters of several versions, found on this machine, with pytest in a virtual environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Interpreter = Callable[..., str]

# Where the language model is installed it would take seconds in every repair; its own tests turn it on.
os.environ.setdefault("WHIMBREL_RANKER", "off")


def _version_folders() -> list[Path]:
    """Folders that may hold ``X.Y.Z/bin/python``, as version managers lay them out."""
    places = [Path(os.environ["PYENV_ROOT"])] if "PYENV_ROOT" in os.environ else []
    places += [
        Path(entry).parent
        for entry in os.environ.get("PATH", "").split(os.pathsep)
        if entry.endswith("shims")
    ]
    places.append(Path.home() / ".pyenv")
    return [place / "versions" for place in places if (place / "versions").is_dir()]


def _find(version: str) -> str | None:
    candidates = [
        str(folder / "bin" / "python")
        for versions in _version_folders()
        for folder in sorted(versions.glob(f"{version}.*"))
    ]
    on_path = shutil.which(f"python{version}")
    candidates += [on_path] if on_path else []
    for candidate in candidates:
        shown = subprocess.run(
            [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if shown.stdout.strip() == version:
            return candidate
    return None


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """``interpreter("3.8", "pytest==5.4.3")`` is the path of a Python with these packages (default: pytest).

    Environments are made once per test session.
    """
    made: dict[tuple[str, ...], str] = {}

    def get(version: str, *packages: str) -> str:
        wanted = packages or ("pytest",)
        key = (version, *wanted)
        if key in made:
            return made[key]
        base = _find(version)
        if base is None:
            text = f"this test needs CPython {version} as python{version} on PATH or under a versions folder"
            if os.environ.get("CI") == "true":
                pytest.fail(text)
            pytest.skip(text)
        folder = tmp_path_factory.mktemp("python") / version
        subprocess.run([base, "-m", "venv", str(folder)], check=True, capture_output=True)
        python = str(folder / "bin" / "python")
        if wanted != ("nothing",):
            install = [python, "-m", "pip", "install", "-q", *wanted]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
        made[key] = python
        return python

    return get
