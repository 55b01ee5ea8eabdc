"""A change runs the tests that can notice it, and no others where that can be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.app.repo.testing.affected import affected_tests

FILES = {
    "src/pkg/__init__.py": "",
    "src/pkg/core.py": "import json\n",
    "src/pkg/deep/__init__.py": "from .leaf import leaf\n",
    "src/pkg/deep/leaf.py": "from ..core import x\n\ndef leaf(): ...\n",
    "src/pkg/lonely.py": "",
    "src/pkg/tool.py": "",
    "src/pkg/broken.py": "def (:\n",
    "src/pkg/plugin.py": "",
    "src/pkg/data.json": "{}",
    "helpers.py": "from pkg import tool\n",
    "tests/conftest.py": "import helpers\n",
    "tests/unit/test_core.py": "from pkg.core import x\n",
    "tests/unit/test_deep.py": "import pkg.deep.leaf as leaf\n",
    "tests/unit/conftest.py": "",
    "tests/test_tool.py": "import subprocess\nsubprocess.run(['python', '-m', 'pkg.lonely'])\n",
    "tests/test_late.py": "import importlib\nimportlib.import_module('pkg.plugin')\nfrom pkg import broken\n",
    "tests/cases/input.txt": "1",
    "other/test_alone.py": "def test_a(): open('data.json')\n",
    "README.md": "",
    "settings.yaml": "",
}
UNIT = ["tests/unit/test_core.py", "tests/unit/test_deep.py"]
TESTS = ["tests/test_late.py", "tests/test_tool.py", *UNIT]

CASES = {
    "imported": (["src/pkg/core.py"], UNIT, []),
    "imported-relatively": (["src/pkg/deep/leaf.py"], ["tests/unit/test_deep.py"], []),
    "run-as-a-module": (["src/pkg/lonely.py"], ["tests/test_tool.py"], []),
    "loaded-by-name": (["src/pkg/plugin.py"], ["tests/test_late.py"], []),
    "not-parsable": (["src/pkg/broken.py"], ["tests/test_late.py"], []),
    "deleted": (["src/pkg/gone.py"], [], ["src/pkg/gone.py"]),
    "through-the-conftest": (["src/pkg/tool.py"], TESTS, []),
    "the-conftest-of-a-folder": (["tests/unit/conftest.py"], UNIT, []),
    "a-test": (["other/test_alone.py"], ["other/test_alone.py"], []),
    "data-that-is-named": (["src/pkg/data.json"], ["other/test_alone.py"], []),
    "data-beside-tests": (["tests/cases/input.txt"], ["tests/test_late.py", "tests/test_tool.py"], []),
    "prose": (["README.md", "docs/conf.py.md", ".gitignore"], [], []),
    "unknown": (["settings.yaml"], [], ["settings.yaml"]),
    "nothing": ([], [], []),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_a_change_selects(name: str, root: Path) -> None:
    changed, tests, unreached = CASES[name]
    found = affected_tests(root, list(FILES), changed, ["src"])
    assert (list(found.tests), list(found.unreached), found.everything) == (sorted(tests), unreached, False)


@pytest.mark.parametrize(
    "path", ["pyproject.toml", "pytest.ini", "requirements-dev.txt", "tests/sitecustomize.py"]
)
def test_what_decides_how_tests_run_affects_all(path: str, root: Path) -> None:
    assert affected_tests(root, list(FILES), [path, "README.md"], ["src"]).everything


def test_a_package_that_everything_imports_affects_all(root: Path) -> None:
    # Whatever imports a part of it runs it.
    found = affected_tests(root, list(FILES), ["src/pkg/__init__.py"], ["src"])
    assert set(found.tests) >= set(UNIT)
    assert affected_tests(
        root, list(FILES), ["src/pkg/__init__.py", "other/test_alone.py"], ["src"]
    ).everything


def test_other_languages_run_as_a_whole_unless_only_prose_changed(tmp_path: Path) -> None:
    assert affected_tests(tmp_path, ["main.go"], ["main.go"], []).everything
    assert not affected_tests(tmp_path, ["main.go"], ["README.md"], []).everything
