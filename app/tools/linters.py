"""The linters and type checkers a project may configure: how each is recognised, started and read.

None of the command lines fixes anything or writes a cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

__all__ = ["LINTERS", "Linter", "Problem"]

_PYTHON = (".py", ".pyi")
_SCRIPT = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_LINE = re.compile(r"^(?P<path>.+?):(?P<line>\d+):(?:\d+:)? (?:error: )?(?P<message>.+)$")
_TSC = re.compile(r"^(?P<path>.+?)\((?P<line>\d+),\d+\): (?:error )?(?P<message>.+)$")


@dataclass(frozen=True)
class Problem:
    """One complaint about one file; ``path`` as the tool wrote it."""

    tool: str
    path: str
    line: int
    message: str

    @property
    def key(self) -> str:
        """The same for the same complaint at another line."""
        return f"{self.tool} {re.sub(r'[0-9]+', '#', self.message)}"


@dataclass(frozen=True)
class Linter:
    """One tool."""

    name: str
    suffixes: tuple[str, ...]
    configured: Callable[[Mapping[str, str]], bool]
    """Whether files of the repository's top (name -> text, "" when not read) ask for it."""
    arguments: tuple[str, ...]
    """Before the path; for ``whole`` tools no path follows."""
    read: Callable[[str, str], list[Problem]]
    """(tool's name, its output) -> problems."""
    python: bool = True
    """Started as a module of the project's Python; otherwise from node_modules."""
    whole: bool = False
    """Checks the project, not one file."""
    env: tuple[tuple[str, str], ...] = ()

    def fits(self, path: str) -> bool:
        return PurePosixPath(path).suffix.lower() in self.suffixes


def _by_lines(pattern: re.Pattern[str], keep: Callable[[str], bool]) -> Callable[[str, str], list[Problem]]:
    def read(tool: str, output: str) -> list[Problem]:
        matches = (pattern.match(line.strip()) for line in output.splitlines())
        return [
            Problem(tool, match["path"], int(match["line"]), match["message"])
            for match in matches
            if match and keep(match["message"])
        ]

    return read


def _pyright(tool: str, output: str) -> list[Problem]:
    found = _fields(_json(output, "{")).get("generalDiagnostics")
    problems: list[Problem] = []
    for item in cast("list[Any]", found) if isinstance(found, list) else []:
        fields = _fields(item)
        if fields.get("severity") == "error":
            start = _fields(_fields(fields.get("range")).get("start"))
            text = " ".join(str(fields.get("message", "")).split())
            rule = f" ({fields['rule']})" if fields.get("rule") else ""
            line = int(start.get("line", 0)) + 1
            problems.append(Problem(tool, str(fields.get("file", "")), line, text + rule))
    return problems


def _eslint(tool: str, output: str) -> list[Problem]:
    problems: list[Problem] = []
    files = _json(output, "[")
    for file in cast("list[Any]", files) if isinstance(files, list) else []:
        fields = _fields(file)
        for item in cast("Sequence[Any]", fields.get("messages") or ()):
            said = _fields(item)
            text = f"{said.get('ruleId') or 'error'}: {said.get('message', '')}"
            problems.append(Problem(tool, str(fields.get("filePath", "")), int(said.get("line") or 1), text))
    return problems


def _json(output: str, opening: str) -> Any:
    at = output.find(opening)
    if at < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(output[at:])[0]
    except ValueError:
        return None


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _asks(names: Sequence[str], sections: Mapping[str, str], never: str = "") -> Callable[..., bool]:
    """A file of one of these names, or one of these sections; not when the text matches ``never``."""

    def configured(files: Mapping[str, str]) -> bool:
        holding = [name for name in names if name in files]
        holding += [name for name, text in sections.items() if text in files.get(name, "")]
        return bool(holding) and not (never and any(re.search(never, files[name]) for name in holding))

    return configured


LINTERS: tuple[Linter, ...] = (
    Linter(
        "ruff",
        _PYTHON,
        _asks(("ruff.toml", ".ruff.toml"), {"pyproject.toml": "[tool.ruff"}),
        ("check", "--no-fix", "--no-cache", "--quiet", "--force-exclude", "--output-format=concise"),
        _by_lines(_LINE, lambda message: True),
    ),
    Linter(
        "flake8",
        _PYTHON,
        # A configured output file would be written.
        _asks((".flake8",), {"setup.cfg": "[flake8", "tox.ini": "[flake8"}, r"(?m)^\s*(output-file|tee)\s*="),
        ("--format=default", "--color=never"),
        _by_lines(_LINE, lambda message: True),
    ),
    Linter(
        "mypy",
        _PYTHON,
        _asks(
            ("mypy.ini", ".mypy.ini"),
            {"pyproject.toml": "[tool.mypy", "setup.cfg": "[mypy"},
            r"(?m)^\s*\w+_(report|xml)\s*=",
        ),
        (
            "--no-error-summary",
            "--hide-error-context",
            "--no-color-output",
            "--no-pretty",
            "--show-column-numbers",
            "--cache-dir=/dev/null",
            "--follow-imports=silent",
        ),
        _by_lines(_LINE, lambda message: not message.startswith("note:")),
    ),
    Linter(
        "pyright",
        _PYTHON,
        _asks(("pyrightconfig.json",), {"pyproject.toml": "[tool.pyright"}),
        ("--outputjson",),
        _pyright,
        env=(("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1"),),
    ),
    Linter(
        "eslint",
        _SCRIPT,
        lambda files: any(name.startswith(("eslint.config.", ".eslintrc")) for name in files),
        ("--format", "json", "--no-color"),
        _eslint,
        python=False,
    ),
    Linter(
        "tsc",
        (".ts", ".mts", ".cts", ".tsx"),
        lambda files: "tsconfig.json" in files,
        ("--noEmit", "--pretty", "false", "--incremental", "false"),
        _by_lines(_TSC, lambda message: True),
        python=False,
        whole=True,
    ),
)
