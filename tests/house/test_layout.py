"""The rules of the house that no other tool checks."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEAVY = (
    "asyncio", "docker", "git", "httpx", "openai", "pydantic", "requests", "rich", "sqlite3", "textual",
    "tree_sitter", "rapidfuzz", "unidiff", "coverage", "platformdirs", "importlib.metadata", "json",
)  # fmt: skip


def _run(*argv: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True, capture_output=True)


def test_every_package_folder_is_listed_in_pyproject():
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"whimbrel"}
    for top in ("app", "engine", "kernels", "sandbox"):
        for init in (ROOT / top).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            if parts != ("app", "_package"):
                found.add(".".join(("whimbrel", *parts)))
    assert listed == found


def test_help_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from whimbrel.app.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print('MODULES', *sorted(sys.modules))\n"
    )
    answer = _run(sys.executable, "-c", script)
    assert answer.returncode == 0, answer.stderr
    assert "fix-issue" in answer.stdout
    loaded = set(answer.stdout.rpartition("MODULES ")[2].split())
    assert sorted(loaded.intersection(HEAVY)) == []


def test_a_repository_with_its_own_app_and_engine_does_not_collide(tmp_path: Path):
    for name in ("app", "engine", "kernels", "sandbox"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong package was imported')\n")
    answer = _run(sys.executable, "-m", "whimbrel.app.cli", "--version", cwd=tmp_path, PYTHONPATH=".")
    assert (answer.returncode, answer.stdout.split()[0]) == (0, "whimbrel"), answer.stderr
    answer = _run(
        sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--help", cwd=tmp_path, PYTHONPATH="."
    )
    assert answer.returncode == 0, answer.stderr


def test_unknown_commands_and_options_are_usage_errors_of_one_or_two_lines():
    answer = _run(sys.executable, "-m", "whimbrel.app.cli", "no-such-command")
    assert answer.returncode == 2
    assert "No such command" in answer.stderr and "Traceback" not in answer.stderr
    answer = _run(sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--no-such-option")
    assert answer.returncode == 2


def test_source_modules_stay_readable():
    too_long = {
        str(path.relative_to(ROOT)): lines
        for top in ("app", "engine", "kernels", "sandbox")
        for path in (ROOT / top).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert too_long == {}
