"""A project's own description of itself, read without running any of it."""

from __future__ import annotations

import ast
import configparser
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ProjectFiles:
    """Parsed configuration files; what is missing or broken is empty."""

    root: Path
    pyproject: Mapping[str, Any]
    setup_cfg: configparser.ConfigParser
    setup_py: Mapping[str, Any]
    """Literal keyword arguments of the ``setup()`` call."""
    ini: configparser.ConfigParser
    """pytest.ini and tox.ini together."""
    notes: tuple[str, ...] = ()
    """Files that could not be parsed."""

    def table(self, *keys: str) -> Mapping[str, Any]:
        """A table of pyproject.toml, or an empty one."""
        value: Any = self.pyproject
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def pytest_options(self) -> dict[str, str]:
        """The pytest options in force, as text, from whichever file pytest would use."""
        for parser, section in (
            (self.ini, "pytest"),
            (self.setup_cfg, "tool:pytest"),
        ):
            if parser.has_section(section):
                return dict(parser.items(section, raw=True))
        options = self.table("tool", "pytest", "ini_options")
        return {
            key: "\n".join(str(item) for item in value) if isinstance(value, list) else str(value)
            for key, value in options.items()
        }

    def requires_python(self) -> str:
        """The version specifier of the project, or empty."""
        value = self.table("project").get("requires-python") or self.setup_py.get("python_requires")
        if not value and self.setup_cfg.has_option("options", "python_requires"):
            value = self.setup_cfg.get("options", "python_requires", raw=True)
        return str(value or "")


def read_project(root: Path) -> ProjectFiles:
    """Reads pyproject.toml, setup.cfg, setup.py, pytest.ini and tox.ini of a directory."""
    notes: list[str] = []
    pyproject: dict[str, Any] = {}
    text = _text(root / "pyproject.toml")
    if text:
        try:
            pyproject = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            notes.append(f"pyproject.toml is not valid TOML ({error}); nothing was read from it")
    setup_cfg = _ini([root / "setup.cfg"], notes)
    ini = _ini([root / "tox.ini", root / "pytest.ini"], notes)
    return ProjectFiles(root, pyproject, setup_cfg, _setup_keywords(root / "setup.py"), ini, tuple(notes))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Missing, a directory or unreadable: the project simply does not say anything there.
        return ""


def _ini(paths: list[Path], notes: list[str]) -> configparser.ConfigParser:
    merged = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    for path in paths:
        text = _text(path)
        if not text:
            continue
        try:
            merged.read_string(text, source=path.name)
        except configparser.Error as error:
            notes.append(f"{path.name} cannot be parsed: {str(error).splitlines()[0]}")
    return merged


def _setup_keywords(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        # A setup.py for another Python, or not Python at all: nothing can be said statically.
        return {}
    names: dict[str, Any] = {}
    keywords: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            literal = _literal(node.value, names)
            if literal is not None:
                names[node.targets[0].id] = literal
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called != "setup":
            continue
        for keyword in node.keywords:
            literal = _literal(keyword.value, names)
            if keyword.arg and literal is not None:
                keywords[keyword.arg] = literal
    return keywords


def _literal(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
