"""Git-ignored build outputs that the tests need in the copy: compiled extensions, version files, metadata.

They are copied into the workspace and, being ignored by git, never become part of a patch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ....sandbox.base.git import Git
from .project import ProjectFiles, read_project

MAX_FILE_BYTES: Final = 256 << 20
MAX_TOTAL_BYTES: Final = 1 << 30
MAX_FILES: Final = 5000

_PRUNED: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "env", ".eggs", ".direnv", ".pixi"),
        *("node_modules", "__pycache__", "build", "dist", "htmlcov", ".idea", ".vscode"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
    )
)
_LIBRARIES: Final = (".so", ".pyd", ".dylib")
_METADATA: Final = (".egg-info", ".dist-info")


@dataclass(frozen=True)
class BuildOutputs:
    """Repository-relative files to copy, and what was left out and why."""

    paths: tuple[str, ...]
    notes: tuple[str, ...] = ()


def build_outputs(repository: Path) -> tuple[str, ...]:
    """Repository-relative paths for ``Workspace.create(extra_paths=...)``."""
    return find_build_outputs(repository).paths


def find_build_outputs(repository: Path) -> BuildOutputs:
    """Finds them: by suffix, by the project's configuration, and generated ``.py`` files by their header.

    Only regular files that git ignores and that lie outside environments and caches.
    Bounded in number and size; what exceeds the bounds is named in the notes.
    """
    declared = frozenset(_version_files(read_project(repository)))
    wanted = [path for path in _files(repository, "") if path in declared or _is_output(repository, path)]
    paths: list[str] = []
    notes: list[str] = []
    total = 0
    for path in sorted(_ignored(repository, wanted)):
        size = (repository / path).stat().st_size
        if size > MAX_FILE_BYTES or total + size > MAX_TOTAL_BYTES or len(paths) >= MAX_FILES:
            notes.append(f"build output {path} ({size} bytes) was not copied: over the limit")
            continue
        total += size
        paths.append(path)
    return BuildOutputs(tuple(paths), tuple(notes))


def _files(repository: Path, below: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(repository / below), key=lambda entry: entry.name)
    except PermissionError:
        # A directory the caller cannot read cannot be copied either.
        return
    for entry in entries:
        relative = f"{below}/{entry.name}" if below else entry.name
        if entry.is_symlink():
            continue
        if entry.is_dir():
            if entry.name not in _PRUNED and not (Path(entry.path) / "pyvenv.cfg").exists():
                yield from _files(repository, relative)
        elif entry.is_file():
            yield relative


def _is_output(repository: Path, path: str) -> bool:
    if path.endswith(_LIBRARIES) or any(part.endswith(_METADATA) for part in path.split("/")[:-1]):
        return True
    return path.endswith(".py") and _is_generated(repository / path)


def _is_generated(path: Path) -> bool:
    """Generators sign their files in the first lines (version writers, protobuf, parsers)."""
    try:
        with path.open("rb") as file:
            head = file.read(1024).lower()
    except OSError:
        return False
    return b"generated" in head or b"do not edit" in head


def _version_files(project: ProjectFiles) -> Iterator[str]:
    scm = project.table("tool", "setuptools_scm")
    hatch = project.table("tool", "hatch", "build", "hooks", "vcs")
    values: list[Any] = [scm.get("write_to"), scm.get("version_file"), hatch.get("version-file")]
    values.append(project.table("tool", "pdm", "version").get("write_to"))
    values.append(project.table("tool", "versioningit", "write").get("file"))
    used = project.setup_py.get("use_scm_version")
    if isinstance(used, dict):
        values += [used.get("write_to"), used.get("version_file")]
    for value in values:
        if isinstance(value, str):
            yield value.removeprefix("./")


def _ignored(repository: Path, paths: list[str]) -> list[str]:
    """Those that git ignores and does not track."""
    if not paths:
        return []
    git = Git(None, repository)
    listing = "\0".join(paths).encode("utf-8", "surrogateescape")
    # check-ignore exits with 1 when none of the paths is ignored.
    result = git.run_sync("check-ignore", "-z", "--stdin", input=listing, check=False)
    names = result.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in names if name]
