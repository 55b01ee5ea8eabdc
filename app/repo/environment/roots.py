"""Where a project's importable code lies: directories for the import path, and its top-level modules."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from .project import ProjectFiles

_NOT_THE_PROJECT: Final = frozenset(
    (
        *("tests", "test", "testing", "t", "docs", "doc", "examples", "example", "benchmarks", "benchmark"),
        *("scripts", "script", "tools", "ci", "bin", "build", "dist", "site", "node_modules", "venv", "env"),
        *("setup", "conftest", "noxfile", "tasks", "fabfile", "manage", "wsgi", "asgi"),
    )
)


def import_roots(project: ProjectFiles) -> tuple[str, ...]:
    """Repository-relative directories to put first on the import path, most specific first.

    What the project declares (package-dir, where, pytest's pythonpath, build back ends), then
    ``src`` and ``lib`` by their content, then the repository itself when packages lie in it.
    """
    found: dict[str, None] = {}
    for entry in [*_declared(project), *_by_content(project.root)]:
        relative = _inside(project.root, entry)
        if relative is not None:
            found.setdefault(relative)
    return tuple(found)


def top_level_modules(root: Path, roots: Iterable[str]) -> tuple[str, ...]:
    """Names of the project's own packages and modules under its import roots.

    Tests, docs and scripts beside the code are left out, and so are names of the standard
    library, which the interpreter finds elsewhere by right. Namespace packages give the
    dotted names of their parts.
    """
    names: dict[str, None] = {}
    for relative in roots:
        for name in _modules_in(root / relative, nested=relative != "."):
            if name.split(".")[0] not in sys.stdlib_module_names:
                names.setdefault(name)
    return tuple(names)


def _declared(project: ProjectFiles) -> Iterator[str]:
    setuptools = project.table("tool", "setuptools")
    yield from _package_dir(setuptools.get("package-dir"))
    yield from _strings(project.table("tool", "setuptools", "packages", "find").get("where"))
    yield from _package_dir(project.setup_py.get("package_dir"))
    configuration = project.setup_cfg
    if configuration.has_option("options", "package_dir"):
        lines = configuration.get("options", "package_dir").splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        yield from _package_dir({key.strip(): value.strip() for key, _, value in pairs})
    if configuration.has_option("options.packages.find", "where"):
        yield configuration.get("options.packages.find", "where").strip()
    for path in _strings(project.table("tool", "hatch", "build", "targets", "wheel").get("packages")):
        yield str(PurePosixPath(path).parent)
    for package in _dicts(project.table("tool", "poetry").get("packages")):
        yield str(package.get("from", "."))
    yield from _strings(project.table("tool", "pdm", "build").get("package-dir"))
    maturin = project.table("tool", "maturin").get("python-source")
    yield from _strings(maturin)
    pythonpath = project.pytest_options().get("pythonpath", "")
    try:
        yield from shlex.split(pythonpath)
    except ValueError:
        # Unbalanced quotes: pytest itself will complain with the file and line.
        return


def _package_dir(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for package, directory in value.items():
        path = PurePosixPath(str(directory))
        if package == "":
            yield str(path)
        elif path.name == str(package).split(".")[-1] and path.parts[-1:] == (package,):
            yield str(path.parent)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _by_content(root: Path) -> Iterator[str]:
    if any(True for _ in _modules_in(root / "src", nested=True)):
        yield "src"
    in_root = any(True for _ in _modules_in(root, nested=False))
    if not in_root and any(True for _ in _modules_in(root / "lib", nested=False)):
        yield "lib"
    if in_root:
        yield "."


def _inside(root: Path, entry: str) -> str | None:
    """The entry as a clean relative path when it is an existing directory of the repository."""
    path = (root / entry).resolve()
    if not path.is_dir() or not path.is_relative_to(root.resolve()):
        return None
    return path.relative_to(root.resolve()).as_posix()


def _modules_in(directory: Path, *, nested: bool) -> Iterator[str]:
    if not directory.is_dir():
        return
    for path in sorted(directory.iterdir()):
        name = path.name.partition(".")[0]
        if not name.isidentifier() or name in _NOT_THE_PROJECT or name.startswith("test_"):
            continue
        if path.is_dir():
            if (path / "__init__.py").is_file():
                yield name
            elif nested and "." not in path.name:
                parts = (part for part in sorted(path.iterdir()) if (part / "__init__.py").is_file())
                yield from (f"{name}.{part.name}" for part in parts if part.name.isidentifier())
        elif path.suffix == ".py" and path.is_file() and not name.startswith("__"):
            yield name
