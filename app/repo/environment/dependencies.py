"""What a project needs installed to run its tests, read from its files without running them."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from .project import ProjectFiles

_TEST_GROUPS: Final = frozenset(("test", "tests", "testing", "dev", "develop", "development"))
_REQUIREMENT_FILES: Final = (
    "requirements.txt",
    *(f"requirements-{name}.txt" for name in ("dev", "test", "tests", "testing")),
    *(f"requirements_{name}.txt" for name in ("dev", "test", "tests", "testing")),
    *(f"{name}-requirements.txt" for name in ("dev", "test", "tests")),
    *(f"requirements/{name}.txt" for name in ("base", "requirements", "dev", "test", "tests", "testing")),
    "tests/requirements.txt",
    "test/requirements.txt",
)
_TOML_LOCKS: Final = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_OPERATORS: Final = "<>=!~"


@dataclass(frozen=True)
class Dependencies:
    """Requirements and where they came from."""

    runtime: tuple[str, ...]
    """PEP 508 lines the code itself needs."""
    test: tuple[str, ...]
    """PEP 508 lines of test and development groups and requirement files."""
    pins: tuple[str, ...] = ()
    """``name==version`` lines of a lock file, used as constraints."""
    sources: tuple[str, ...] = ()
    """Files they were read from."""
    skipped: tuple[str, ...] = ()
    """Lines that installing would have to execute or fetch from elsewhere; never installed untrusted."""

    def names(self, version: tuple[int, int, int], *, runtime_only: bool = False) -> tuple[str, ...]:
        """Normalised distribution names that apply to a Python version, on this platform."""
        lines = self.runtime if runtime_only else (*self.runtime, *self.test)
        return tuple(dict.fromkeys(name for line in lines if (name := _applies(line, version))))


def read_dependencies(project: ProjectFiles) -> Dependencies:
    """Collects them from pyproject.toml, setup.cfg, setup.py, requirement files, tox.ini and lock files."""
    runtime: list[str] = []
    test: list[str] = []
    skipped: list[str] = []
    sources: dict[str, None] = {}

    def take(lines: Iterable[str], into: list[str], source: str) -> None:
        for line in lines:
            sources.setdefault(source)
            if _plain(line):
                into.append(line)
            else:
                skipped.append(f"{source}: {line}")

    pyproject = project.table("project")
    take(_strings(pyproject.get("dependencies")), runtime, "pyproject.toml")
    take(_groups(pyproject.get("optional-dependencies")), test, "pyproject.toml")
    take(_dependency_groups(project.table("dependency-groups")), test, "pyproject.toml")
    take(_groups(project.table("tool", "pdm", "dev-dependencies")), test, "pyproject.toml")
    dynamic = project.table("tool", "setuptools", "dynamic", "dependencies").get("file")
    for name in _strings(dynamic):
        take(_requirement_file(project.root, name), runtime, name)
    poetry = project.table("tool", "poetry")
    take(_poetry(poetry.get("dependencies")), runtime, "pyproject.toml")
    take(_poetry(poetry.get("dev-dependencies")), test, "pyproject.toml")
    for group in _test_tables(poetry.get("group")):
        take(_poetry(group.get("dependencies")), test, "pyproject.toml")
    take(_ini_lines(project.setup_cfg, "options", "install_requires"), runtime, "setup.cfg")
    take(_ini_lines(project.setup_cfg, "options", "tests_require"), test, "setup.cfg")
    for name in sorted(_TEST_GROUPS):
        take(_ini_lines(project.setup_cfg, "options.extras_require", name), test, "setup.cfg")
    take(_strings(project.setup_py.get("install_requires")), runtime, "setup.py")
    take(_strings(project.setup_py.get("tests_require")), test, "setup.py")
    take(_groups(project.setup_py.get("extras_require")), test, "setup.py")
    tox = (line for line in _ini_lines(project.ini, "testenv", "deps") if not line.startswith("-r"))
    take((line.rpartition(": ")[2] for line in tox if "{" not in line), test, "tox.ini")
    # An application without packaging metadata says what it needs in its requirement file.
    undeclared = not runtime
    for name in _REQUIREMENT_FILES:
        own_needs = undeclared and name in ("requirements.txt", "requirements/base.txt")
        take(_requirement_file(project.root, name), runtime if own_needs else test, name)
    pins, lock = _lock(project.root)
    if lock:
        sources.setdefault(lock)
    own = canonicalize_name(str(pyproject.get("name") or project.setup_py.get("name") or ""))
    return Dependencies(
        runtime=_without(runtime, own),
        test=_without(test, own),
        pins=pins,
        sources=tuple(sources),
        skipped=tuple(dict.fromkeys(skipped)),
    )


def python_allowed(specifier: str, version: tuple[int, int, int]) -> bool:
    """Whether ``requires-python`` admits a version; an unreadable specifier admits all."""
    try:
        return SpecifierSet(specifier).contains(".".join(map(str, version)), prereleases=True)
    except InvalidSpecifier:
        return True


def _applies(line: str, version: tuple[int, int, int]) -> str:
    requirement = Requirement(line)
    environment = {key: str(value) for key, value in default_environment().items()}
    environment["python_version"] = f"{version[0]}.{version[1]}"
    environment["python_full_version"] = ".".join(map(str, version))
    environment["extra"] = ""
    if requirement.marker is not None and not requirement.marker.evaluate(environment):
        return ""
    return canonicalize_name(requirement.name)


def _plain(line: str) -> bool:
    """A named requirement from an index: no path, no URL, no option."""
    try:
        return Requirement(line).url is None
    except InvalidRequirement:
        return False


def _without(lines: list[str], own: str) -> tuple[str, ...]:
    """Without repeats and without the project itself (``pkg[test]`` in its own groups)."""
    return tuple(line for line in dict.fromkeys(lines) if canonicalize_name(Requirement(line).name) != own)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (line.strip() for line in value.splitlines() if line.strip())
    elif isinstance(value, (list, tuple)):
        yield from (item for item in value if isinstance(item, str))


def _groups(value: Any) -> Iterator[str]:
    for group in _test_tables(value):
        yield from _strings(group)


def _test_tables(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (group for name, group in value.items() if str(name).lower() in _TEST_GROUPS)


def _dependency_groups(groups: Mapping[str, Any]) -> Iterator[str]:
    """PEP 735, with ``include-group`` followed."""
    waiting = [name for name in groups if name.lower() in _TEST_GROUPS]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        items: Any = groups.get(name, [])
        if name in seen or not isinstance(items, list):
            continue
        seen.add(name)
        for item in items:
            if isinstance(item, str):
                yield item
            elif isinstance(item, dict) and isinstance(item.get("include-group"), str):
                waiting.append(item["include-group"])


def _poetry(table: Any) -> Iterator[str]:
    if not isinstance(table, dict):
        return
    for name, value in table.items():
        if name == "python":
            continue
        detail = value if isinstance(value, dict) else {"version": value}
        if detail.get("optional"):
            continue
        place = detail.get("path") or detail.get("git") or detail.get("url")
        if place:
            yield f"{name} @ {place}"
            continue
        marker = f" ; {detail['markers']}" if isinstance(detail.get("markers"), str) else ""
        yield f"{name}{_poetry_version(str(detail.get('version', '*')))}{marker}"


def _poetry_version(text: str) -> str:
    """Poetry's version constraint as a PEP 440 specifier (``^1.2`` -> ``>=1.2,<2``)."""
    parts: list[str] = []
    for item in (part.strip() for part in text.split(",")):
        if item in ("", "*"):
            continue
        if item[0] in "^~" and not item.startswith("~="):
            numbers = [int(number) for number in re.findall(r"\d+", item)[:3]]
            if item[0] == "~":
                upper = [numbers[0], numbers[1] + 1] if len(numbers) > 1 else [numbers[0] + 1]
            else:
                first = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1)
                upper = [*numbers[:first], numbers[first] + 1]
            parts += [f">={item[1:].strip()}", f"<{'.'.join(map(str, upper))}"]
        else:
            parts.append(item if item[0] in _OPERATORS else f"=={item}")
    return ",".join(parts)


def _ini_lines(parser: configparser.ConfigParser, section: str, option: str) -> Iterator[str]:
    if parser.has_option(section, option):
        for line in (parser.get(section, option) or "").splitlines():
            text = line.partition(" #")[0].strip()
            if text and not text.startswith("#"):
                yield text


def _requirement_file(root: Path, name: str, depth: int = 0) -> Iterator[str]:
    path = (root / name).resolve()
    if depth > 5 or not path.is_file() or not path.is_relative_to(root.resolve()):
        return
    text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\\\n", " ")
    for line in text.splitlines():
        entry = re.sub(r"(^|\s)#.*$", "", line).strip()
        included = re.match(r"(?:-r|--requirement)[ =]\s*(\S+)", entry)
        if included:
            below = path.parent.relative_to(root.resolve()) / included[1]
            yield from _requirement_file(root, str(below), depth + 1)
        elif entry:
            # Hashes belong to exact files of one index; the pins themselves stay.
            yield entry.partition(" --hash")[0].strip()


def _lock(root: Path) -> tuple[tuple[str, ...], str]:
    """Pins of the first lock file there is, with its name; versions that differ by marker are left out."""
    for name in _TOML_LOCKS:
        path = root / name
        if path.is_file():
            try:
                data = tomllib.loads(path.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError):
                continue
            packages: Any = data.get("package") or data.get("packages") or []
            pairs = [(p.get("name"), p.get("version")) for p in packages if isinstance(p, dict)]
            return _unambiguous(pairs), name
    pipfile = root / "Pipfile.lock"
    if pipfile.is_file():
        try:
            locked: Any = json.loads(pipfile.read_text(encoding="utf-8"))
        except ValueError:
            return (), ""
        sections = [locked.get(key) or {} for key in ("default", "develop")]
        pairs = [
            (name, str(entry.get("version", "")).removeprefix("=="))
            for section in sections
            for name, entry in section.items()
            if isinstance(entry, dict)
        ]
        return _unambiguous(pairs), "Pipfile.lock"
    return (), ""


def _unambiguous(pairs: Iterable[tuple[Any, Any]]) -> tuple[str, ...]:
    versions: dict[str, set[str]] = {}
    for name, version in pairs:
        if isinstance(name, str) and isinstance(version, str) and version:
            versions.setdefault(canonicalize_name(name), set()).add(version)
    return tuple(f"{name}=={min(found)}" for name, found in sorted(versions.items()) if len(found) == 1)
