"""Which Python runs the project's tests: candidates in order, and what is known about each.

Nothing that lies in the repository is executed here: a repository may ship a file
``.venv/bin/python`` of its own making, and running that outside the sandbox would be
running its code. What a virtual environment is made of is read from ``pyvenv.cfg`` and
from its directories; only the base interpreter, which lies outside, is asked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ....sandbox.base.errors import EnvironmentBroken, UsageError
from ....sandbox.base.process import base_environment, run_process

OLDEST: Final = (3, 8)

# The optional modules are imported for the shared libraries they bring in: the memory map
# then names every file the interpreter needs, also outside its own prefix.
_FACTS: Final = """
import importlib, json, os, site, sys, sysconfig
for name in ("bz2", "ctypes", "lzma", "readline", "sqlite3", "ssl", "zlib"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
libraries = set()
if os.path.exists("/proc/self/maps"):
    with open("/proc/self/maps") as file:
        for line in file:
            path = line.rstrip().partition("/")[2]
            if ".so" in path:
                libraries.add("/" + path)
print(json.dumps({
    "version": list(sys.version_info[:3]), "executable": sys.executable,
    "prefix": sys.prefix, "base_prefix": sys.base_prefix,
    "stdlib": sysconfig.get_path("stdlib"), "platstdlib": sysconfig.get_path("platstdlib"),
    "site": site.getsitepackages(), "user_site": site.getusersitepackages(),
    "user_base": site.getuserbase(), "libraries": sorted(libraries),
}))
"""

_PYTHON_NAME: Final = re.compile(r"(python|pypy)[0-9.]*([a-z]*)")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Candidate:
    """A path that may be the project's interpreter, and who named it."""

    path: Path
    origin: str


@dataclass(frozen=True)
class Interpreter:
    """An interpreter and the directories it lives on. All paths absolute, on the host."""

    path: Path
    """What to execute; symlinks not resolved, since that is how a virtual environment is recognised."""
    origin: str
    version: tuple[int, int, int]
    prefix: Path
    """The virtual environment, or the base prefix when there is none."""
    base_prefix: Path
    base_binary: Path
    """Real path of the base interpreter's file."""
    stdlib: tuple[Path, ...]
    site_dirs: tuple[Path, ...]
    """Existing directories with installed distributions, own ones first."""
    is_venv: bool
    libraries: tuple[Path, ...] = ()
    """Shared libraries the base interpreter loads, its own extension modules included."""
    user_base: Path | None = None
    """Where ``pip install --user`` put distributions, when this interpreter sees them."""


class Unusable(Exception):
    """Why a candidate cannot be used; one line, caught by the planner and shown as a note."""


def candidates(
    repository: Path, *, python: str | None, environ: Mapping[str, str], own_prefix: Path | None
) -> Iterator[Candidate]:
    """Interpreters in the promised order: named, VIRTUAL_ENV, in the repository, on PATH.

    Args:
        python: the person's choice: a file, an environment's directory, a command or a version.
        own_prefix: the virtual environment Whimbrel itself runs from, or None. It is on PATH
            (and in VIRTUAL_ENV) only because Whimbrel was started from it, so it comes last.

    Raises:
        UsageError: ``python`` names nothing that exists.
    """
    if python:
        yield Candidate(_named(python, environ), "--python")
        return
    in_repository = [repository / name for name in (".venv", "venv", "env")]
    active = environ.get("VIRTUAL_ENV", "")
    own_last: list[Candidate] = []
    if active and Path(active).is_dir():
        candidate = Candidate(_python_of(Path(active)), "VIRTUAL_ENV")
        if _same(Path(active), own_prefix) and not any(_same(path, own_prefix) for path in in_repository):
            own_last.append(candidate)
        else:
            yield candidate
    for directory in in_repository:
        if (directory / "pyvenv.cfg").is_file() or (directory / "conda-meta").is_dir():
            yield Candidate(_python_of(directory), directory.name)
    seen: set[Path] = set()
    for entry in environ.get("PATH", "").split(os.pathsep):
        directory = Path(entry)
        if not directory.is_absolute() or is_within(directory, repository):
            continue
        for name in ("python3", "python"):
            path = directory / name
            if not os.access(path, os.X_OK) or not path.is_file():
                continue
            real = path.resolve()
            if own_prefix is not None and _same(directory.parent, own_prefix):
                own_last.append(Candidate(path, "PATH"))
            elif real not in seen or _is_environment(directory.parent):
                seen.add(real)
                yield Candidate(path, "PATH")
    yield from own_last[:1]


async def inspect(candidate: Candidate, repository: Path, environ: Mapping[str, str]) -> Interpreter:
    """What is known about a candidate without running anything of the repository.

    Raises:
        Unusable: it is missing, broken or too old; the message says which.
    """
    path = Path(os.path.abspath(candidate.path))  # noqa: PTH100 - resolve() would lose the environment
    if not path.exists():
        if path.is_symlink():
            raise Unusable(f"{path} points to {_end_of_links(path)}, which does not exist")
        raise Unusable(f"{path} does not exist")
    if _is_script(path):
        if is_within(path, repository):
            raise Unusable(f"{path} is a script of the repository, not an interpreter")
        facts = await _ask(path, repository, environ)
        executable = Path(str(facts["executable"]))
        if _is_script(executable):
            raise Unusable(f"{path} leads to {executable}, which is a script")
        path = executable
    environment = _environment_of(path)
    if environment is None:
        binary = path.resolve()
        if is_within(binary, repository):
            raise Unusable(f"{binary} lies in the repository and is not a virtual environment")
        return _from_base(path, candidate.origin, await _ask(path, repository, environ))
    return await _from_venv(path, environment, candidate.origin, repository, environ)


def is_within(path: Path, directory: Path) -> bool:
    """Whether ``path`` is ``directory`` or below it, with all symlinks resolved."""
    return path.resolve().is_relative_to(directory.resolve())


def pyvenv_home(environment: Path) -> Path | None:
    """The directory of the base interpreter that a virtual environment names, or None."""
    home = Path(_configuration(environment).get("home", ""))
    return home if home.is_absolute() else None


def own_environment() -> Path | None:
    """The virtual environment this program runs from, or None."""
    return Path(sys.prefix) if sys.prefix != sys.base_prefix else None


def _named(python: str, environ: Mapping[str, str]) -> Path:
    path = Path(python).expanduser()
    if path.is_dir():
        return _python_of(path)
    if path.is_file():
        return path
    command = f"python{python}" if _VERSION.fullmatch(python) or python.isdigit() else python
    found = shutil.which(command, path=environ.get("PATH", ""))
    if os.sep in python or found is None:
        raise UsageError(
            f"--python {python}: there is no such file, environment or command",
            hint="give the path of an interpreter or of a virtual environment",
        )
    return Path(found)


def _python_of(environment: Path) -> Path:
    for name in ("python", "python3"):
        path = environment / "bin" / name
        if path.exists() or path.is_symlink():
            return path
    return environment / "bin" / "python"


def _same(path: Path, other: Path | None) -> bool:
    return other is not None and path.resolve() == other.resolve()


def _is_environment(prefix: Path) -> bool:
    return (prefix / "pyvenv.cfg").is_file()


def _environment_of(path: Path) -> Path | None:
    """The virtual environment an executable belongs to, by Python's own rule (pyvenv.cfg beside or above)."""
    for directory in (path.parent, path.parent.parent):
        if _is_environment(directory):
            return directory
    return None


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from error


def _end_of_links(path: Path) -> Path:
    for _ in range(40):
        if not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    return path


def _configuration(environment: Path) -> dict[str, str]:
    text = (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


async def _ask(binary: Path, repository: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Facts of an interpreter outside the repository, started isolated and without site.

    The working directory is the repository so that version managers (``.python-version``)
    answer for it; isolated mode keeps the repository off the import path.
    """
    keep = {name: value for name, value in environ.items() if name in ("PATH", "HOME")}
    keep |= {name: value for name, value in environ.items() if name.startswith("PYENV_")}
    with tempfile.TemporaryDirectory(prefix="whimbrel-python-") as scratch:
        try:
            result = await run_process(
                [str(binary), "-I", "-S", "-c", _FACTS],
                cwd=repository,
                env=base_environment(keep),
                log_path=Path(scratch) / "facts.log",
                timeout_s=30,
            )
        except OSError as error:
            raise Unusable(f"{binary} cannot be started: {error.strerror or error}") from error
    lines = result.head.decode("utf-8", "replace").strip().splitlines()
    if result.exit_code != 0 or not lines:
        raise Unusable(f"{binary} does not run: {lines[-1] if lines else f'exit code {result.exit_code}'}")
    try:
        facts: dict[str, Any] = json.loads(lines[-1])
    except ValueError as error:
        raise Unusable(f"{binary} does not answer like a Python interpreter") from error
    return facts


def _version(facts: Mapping[str, Any], shown: Path) -> tuple[int, int, int]:
    major, minor, micro = facts["version"]
    if (major, minor) < OLDEST:
        raise Unusable(f"{shown} is Python {major}.{minor}; 3.8 is the oldest supported")
    return int(major), int(minor), int(micro)


def _from_base(path: Path, origin: str, facts: Mapping[str, Any]) -> Interpreter:
    version = _version(facts, path)
    user_site = Path(str(facts["user_site"]))
    site_dirs = [Path(str(entry)) for entry in facts["site"]]
    has_user = user_site.is_dir()
    if has_user:
        site_dirs.insert(0, user_site)
    return Interpreter(
        path=path,
        origin=origin,
        version=version,
        prefix=Path(str(facts["prefix"])),
        base_prefix=Path(str(facts["base_prefix"])),
        base_binary=path.resolve(),
        stdlib=_existing([facts["stdlib"], facts["platstdlib"]]),
        site_dirs=_existing(site_dirs),
        is_venv=False,
        libraries=tuple(Path(str(entry)) for entry in facts["libraries"]),
        user_base=Path(str(facts["user_base"])) if has_user else None,
    )


async def _from_venv(
    path: Path, environment: Path, origin: str, repository: Path, environ: Mapping[str, str]
) -> Interpreter:
    configuration = _configuration(environment)
    binary = path.resolve()
    if is_within(binary, repository) or is_within(binary, environment):
        binary = _base_from_home(path, configuration, repository, environment)
    if not _PYTHON_NAME.fullmatch(binary.name):
        raise Unusable(f"{path} leads to {binary}, which is not named like a Python interpreter")
    facts = await _ask(binary, repository, environ)
    version = _version(facts, binary)
    library = f"python{version[0]}.{version[1]}"
    own = _existing([environment / lib / library / "site-packages" for lib in ("lib", "lib64")])
    if not own:
        raise Unusable(
            f"{environment} holds no packages for Python {version[0]}.{version[1]}, "
            f"the version its interpreter {binary} has now; make it again"
        )
    sees_base = configuration.get("include-system-site-packages", "").lower() == "true"
    return Interpreter(
        path=path,
        origin=origin,
        version=version,
        prefix=environment,
        base_prefix=Path(str(facts["base_prefix"])),
        base_binary=binary,
        stdlib=_existing([facts["stdlib"], facts["platstdlib"]]),
        site_dirs=_existing([*own, *(facts["site"] if sees_base else [])]),
        is_venv=True,
        libraries=tuple(Path(str(entry)) for entry in facts["libraries"]),
    )


def _base_from_home(
    path: Path, configuration: Mapping[str, str], repository: Path, environment: Path
) -> Path:
    """The base interpreter of an environment whose own ``python`` is a copy, not a link."""
    home = Path(configuration.get("home", ""))
    version = configuration.get("version", configuration.get("version_info", ""))
    short = ".".join(version.split(".")[:2])
    for name in (f"python{short}", path.name, "python3", "python"):
        binary = (home / name).resolve()
        inside = is_within(binary, repository) or is_within(binary, environment)
        if home.is_absolute() and binary.is_file() and not inside:
            return binary
    raise Unusable(f"{environment} names {home} as the home of its base interpreter; there is none")


def _existing(paths: list[Any]) -> tuple[Path, ...]:
    found: dict[Path, Path] = {}
    for entry in paths:
        path = Path(str(entry))
        if path.is_dir():
            found.setdefault(path.resolve(), path)
    return tuple(found.values())


def no_interpreter(notes: list[str]) -> EnvironmentBroken:
    """The error for "there is no Python to run the tests with"."""
    reason = f": {'; '.join(notes)}" if notes else ""
    return EnvironmentBroken(
        f"no Python interpreter that could run the project's tests was found{reason}",
        hint="make a virtual environment in .venv with the project's test dependencies, or give --python",
    )
