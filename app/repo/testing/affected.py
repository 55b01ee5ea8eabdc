"""Which test files a change can affect: over the import graph, names in strings, and configuration.

The graph is read from the source alone; nothing of the repository is imported. Where it cannot
tell (settings of the test run, other languages) everything is affected. What it cannot see: code
reached only through names put together while the program runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ....sandbox.base.errors import ToolError
from ....sandbox.workspace.names import is_test_configuration, is_test_module
from ..files import read_regular

_MAX_FILE_BYTES = 1 << 20
_PROSE = (".md", ".rst", ".adoc", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf")
_PROSE_NAMES = (
    "LICENSE",
    "COPYING",
    "AUTHORS",
    "CODEOWNERS",
    ".gitignore",
    ".gitattributes",
    ".editorconfig",
)
_PROSE_FOLDERS = (".github", ".gitlab", "docs", "doc")
_REQUIREMENTS = (
    "requirements",
    "constraints",
    "environment",
    "poetry.lock",
    "uv.lock",
    "Pipfile",
    "pdm.lock",
)


@dataclass(frozen=True)
class Affected:
    """What to run."""

    everything: bool = False
    tests: tuple[str, ...] = ()
    """Test files, sorted; empty with ``everything``."""
    unreached: tuple[str, ...] = ()
    """Changed source files that no test was found to reach."""
    why: str = ""
    """Why everything runs."""


@dataclass
class _File:
    imports: set[str] = field(default_factory=set[str])
    """Dotted names, absolute, that may be modules or names in them."""
    words: set[str] = field(default_factory=set[str])
    """Short strings of the file: paths, names of modules."""


def affected_tests(
    root: Path, files: Collection[str], changed: Sequence[str], roots: Sequence[str]
) -> Affected:
    """The tests that a change of ``changed`` can affect.

    Args:
        root: the copy, as it is with the change.
        files: its files, relative to the root.
        changed: paths that were added, changed or deleted.
        roots: directories of the import path, relative to the root.
    """
    known = set(files)
    tests = {path for path in files if path.endswith(".py") and is_test_module(path)}
    selected: set[str] = set()
    python = [path for path in changed if path.endswith(".py")]
    for path in changed:
        name = PurePosixPath(path).name
        if name == "conftest.py":
            folder = path.removesuffix("conftest.py")
            selected |= {test for test in tests if test.startswith(folder)}
        elif is_test_configuration(path) or name.startswith(_REQUIREMENTS):
            return Affected(everything=True, why=f"{path} decides how tests run")
    others = [path for path in changed if path not in python and not _prose(path)]
    if not tests:
        # Another language, or names of tests that only the project's own settings know.
        code = [path for path in changed if not _prose(path)]
        return Affected(bool(code), why="no file has the name of a Python test" if code else "")
    packages = {path.rpartition("/")[0] for path in known if path.endswith("__init__.py")}
    names = _Names(tuple(roots), packages)
    graph = {path: _read(root, path, names) for path in sorted(known) if path.endswith(".py")}
    users = _users(graph, [*known, *changed], names)
    unreached: list[str] = []
    for path in python:
        reached = {path, *_reaching(path, users)} & tests
        if not reached and not is_test_module(path) and PurePosixPath(path).name != "conftest.py":
            unreached.append(path)
        selected |= reached
    for path in others:
        mentioning = _mentioning(path, graph)
        reached = {test for user in mentioning for test in (user, *_reaching(user, users))} & tests
        reached |= _beside(path, tests)
        selected |= reached
        if not reached:
            unreached.append(path)
    if selected == tests:
        return Affected(everything=True, why="every test file is affected")
    return Affected(tests=tuple(sorted(selected)), unreached=tuple(unreached))


def _prose(path: str) -> bool:
    parts = PurePosixPath(path).parts
    name = parts[-1]
    return name.endswith(_PROSE) or name.startswith(_PROSE_NAMES) or parts[0] in _PROSE_FOLDERS


def _beside(path: str, tests: Iterable[str]) -> set[str]:
    """Tests whose folder, or a folder below it, holds the file: ``tests/data/x.json`` of ``tests/``.

    Files at the top of the repository belong to no test in particular.
    """
    folder = path.rpartition("/")[0]
    found: set[str] = set()
    for test in tests:
        home = test.rpartition("/")[0]
        if home and (folder == home or folder.startswith(f"{home}/")):
            found.add(test)
    return found


def _mentioning(path: str, graph: Mapping[str, _File]) -> set[str]:
    """Files with a string that is the path, its end, or its name."""
    name = PurePosixPath(path).name
    stem = PurePosixPath(path).stem
    return {
        user
        for user, file in graph.items()
        if name in file.words
        or any(word.endswith(f"/{name}") for word in file.words)
        or (stem in file.words and len(stem) > 3)
    }


def _users(graph: Mapping[str, _File], paths: Iterable[str], names: _Names) -> dict[str, set[str]]:
    """Path -> the files that import it, load it by name, or have it as their conftest."""
    modules: dict[str, set[str]] = {}
    by_name: dict[str, set[str]] = {}
    for path in set(paths):
        if path.endswith(".py"):
            for module in names.of(path):
                modules.setdefault(module, set()).add(path)
            by_name.setdefault(PurePosixPath(path).name, set()).add(path)
    users: dict[str, set[str]] = {}
    for user, file in graph.items():
        used: set[str] = set()
        for dotted in file.imports:
            for prefix in _prefixes(dotted):
                used |= modules.get(prefix, set())
        for word in file.words:
            # `-m package.tool`, `import_module("package.part")`, a script by its path.
            used |= modules.get(word, set())
            if word.endswith(".py"):
                used |= by_name.get(word.rpartition("/")[2], set())
        used |= {path for path in by_name.get("conftest.py", ()) if _above(path, user)}
        for path in used - {user}:
            users.setdefault(path, set()).add(user)
    return users


def _above(conftest: str, path: str) -> bool:
    return path.startswith(conftest.removesuffix("conftest.py")) and path != conftest


def _reaching(path: str, users: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    queue = [path]
    while queue:
        for user in users.get(queue.pop(), ()):
            if user not in found:
                found.add(user)
                queue.append(user)
    return found


@dataclass(frozen=True)
class _Names:
    """Under which dotted names files can be imported."""

    roots: tuple[str, ...]
    packages: Collection[str]
    """Folders with an ``__init__.py``."""

    def of(self, path: str) -> Iterator[str]:
        """From the top, from the roots, and for what is in no package from its own folder."""
        parts = PurePosixPath(path).with_suffix("").parts
        folder = path.rpartition("/")[0]
        if parts[-1] == "__init__":
            parts = parts[:-1]
        elif folder not in self.packages:
            yield parts[-1]
        if not parts:
            return
        yield ".".join(parts)
        for root in (*self.roots, "src", "lib"):
            prefix = PurePosixPath(root).parts
            if prefix and parts[: len(prefix)] == prefix and len(parts) > len(prefix):
                yield ".".join(parts[len(prefix) :])


def _prefixes(dotted: str) -> Iterator[str]:
    parts = dotted.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def _read(root: Path, path: str, names: _Names) -> _File:
    file = _File()
    try:
        tree = ast.parse(read_regular(root, path, _MAX_FILE_BYTES) or b"")
    except (OSError, ToolError, SyntaxError, ValueError, RecursionError, MemoryError):
        return file  # whoever imports it is affected all the same
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            file.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for base in _bases(node, path, names):
                file.imports.update(f"{base}.{alias.name}" if base else alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            file.words.update(node.value.split() if " " in node.value else (node.value,))
    return file


def _bases(node: ast.ImportFrom, path: str, names: _Names) -> Iterator[str]:
    """What a ``from ... import`` stands on, as absolute dotted names."""
    if not node.level:
        yield node.module or ""
        return
    folder = PurePosixPath(path).parent.parts
    for name in {".".join(folder), *names.of("/".join((*folder, "__init__.py")))}:
        parts = name.split(".") if name else []
        kept = parts[: len(parts) - (node.level - 1)]
        if len(parts) >= node.level - 1:
            yield ".".join([*kept, *([node.module] if node.module else [])])
