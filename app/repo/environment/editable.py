"""Editable installs: distributions that point at source files instead of holding a copy.

The trap: an environment with the project installed editable imports the *original*
repository, whatever copy the tests were started from. Everything is found by reading
files; no code of the environment runs.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .model import EditableInstall


def editable_installs(site_dirs: Sequence[Path]) -> tuple[EditableInstall, ...]:
    """Every editable install and path entry of the given directories, without repeats."""
    found: dict[tuple[str, tuple[str, ...]], EditableInstall] = {}
    for directory in site_dirs:
        for install in _in_directory(directory):
            found.setdefault((install.location, install.modules), install)
    return tuple(found.values())


def inside(installs: Sequence[EditableInstall], repository: Path) -> tuple[EditableInstall, ...]:
    """Those that point into the repository."""
    root = repository.resolve()
    return tuple(item for item in installs if Path(item.location).resolve().is_relative_to(root))


def _in_directory(directory: Path) -> Iterator[EditableInstall]:
    for path in sorted(directory.iterdir()):
        if path.suffix == ".pth":
            yield from _path_entries(path)
        elif path.suffix == ".egg-link":
            yield from _egg_link(path)
        elif path.suffix == ".py" and path.name.startswith("__editable___"):
            yield from _finder(path)
        elif path.suffix == ".dist-info":
            yield from _direct_url(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        # A file that cannot be read cannot be followed by the interpreter either.
        return ""


def _path_entries(path: Path) -> Iterator[EditableInstall]:
    for line in _text(path).splitlines():
        entry = line.strip()
        if not entry or entry.startswith(("#", "import ", "import\t")):
            continue
        location = path.parent / entry
        if location.exists():
            yield EditableInstall(name=path.stem.removeprefix("__editable__."), location=str(location))


def _egg_link(path: Path) -> Iterator[EditableInstall]:
    lines = _text(path).splitlines()
    if lines and Path(lines[0].strip()).is_dir():
        yield EditableInstall(name=path.stem, location=lines[0].strip())


def _finder(path: Path) -> Iterator[EditableInstall]:
    """setuptools' finder modules assign literal dictionaries: module name -> path(s)."""
    try:
        tree = ast.parse(_text(path))
    except (SyntaxError, ValueError):
        # Not a module setuptools wrote; the interpreter would reject it as well.
        return
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, value = statement.target.id, statement.value
        else:
            continue
        if name not in ("MAPPING", "NAMESPACES") or value is None:
            continue
        try:
            mapping: Any = ast.literal_eval(value)
        except ValueError:
            continue
        if not isinstance(mapping, dict):
            continue
        for module, where in mapping.items():
            for location in where if isinstance(where, list) else [where]:
                yield EditableInstall(
                    name=path.stem.removeprefix("__editable___").removesuffix("_finder"),
                    location=str(location),
                    modules=(str(module),),
                )


def _direct_url(path: Path) -> Iterator[EditableInstall]:
    file = path / "direct_url.json"
    if not file.is_file():
        return
    try:
        data: Any = json.loads(_text(file))
        editable = bool(data["dir_info"]["editable"])
        url = urlsplit(str(data["url"]))
    except (ValueError, KeyError, TypeError):
        # An archive or a VCS install has no dir_info: not editable.
        return
    if editable and url.scheme == "file":
        yield EditableInstall(name=path.stem.split("-")[0], location=unquote(url.path))
