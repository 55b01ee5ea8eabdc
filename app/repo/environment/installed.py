"""What is installed in an environment, read from its directories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .project import ProjectFiles

_PYTEST_FILES: Final = ("conftest.py", "pytest.ini", "tests/conftest.py", "test/conftest.py")
_PYTEST_STYLE: Final = re.compile(
    rb"^(?:import pytest\b|from pytest\b|(?:async )?def test_|@pytest\.)", re.MULTILINE
)
_UNITTEST_STYLE: Final = re.compile(
    rb"^(?:import unittest\b|from unittest\b|from django\.test)", re.MULTILINE
)
_LOOKED_AT: Final = 400
"""Test files read to learn the style; more do not change the answer."""


def installed_names(site_dirs: Sequence[Path]) -> frozenset[str]:
    """Normalised names of the distributions whose metadata lies in the directories."""
    names: set[str] = set()
    for directory in site_dirs:
        for path in directory.iterdir():
            if path.suffix in (".dist-info", ".egg-info", ".egg-link"):
                names.add(re.sub(r"[-_.]+", "-", path.stem.split("-")[0]).lower())
    return frozenset(names)


def has_module(site_dirs: Sequence[Path], name: str) -> bool:
    """Whether a top-level package or module of that name lies in one of the directories."""
    return any(
        (directory / name / "__init__.py").is_file() or (directory / f"{name}.py").is_file()
        for directory in site_dirs
    )


def wants_pytest(project: ProjectFiles) -> bool:
    """Whether the tests need pytest: its configuration, its import, or tests written as functions.

    False only when tests are there and all of them are plain unittest.
    """
    if project.pytest_options() or any((project.root / name).is_file() for name in _PYTEST_FILES):
        return True
    plain = False
    for number, path in enumerate(_test_files(project.root)):
        if number >= _LOOKED_AT:
            break
        try:
            content = path.read_bytes()
        except OSError:
            continue
        if _PYTEST_STYLE.search(content):
            return True
        plain = plain or bool(_UNITTEST_STYLE.search(content))
    return not plain


def _test_files(root: Path) -> list[Path]:
    found: list[Path] = []
    for directory in (root, root / "tests", root / "test", root / "src", root / "testing"):
        if directory.is_dir():
            pattern = "test*.py" if directory == root else "**/test*.py"
            found += sorted(directory.glob(pattern)) + sorted(directory.glob(pattern[:-8] + "*_test.py"))
    return found
