"""Which host paths an interpreter needs inside a sandbox, at the same places."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ....sandbox.protocol import Mount
from .interpreter import Interpreter, pyvenv_home
from .model import EditableInstall
from .readable import cache_directory, readable_source

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc")
"""Trees that a sandbox has anyway: bubblewrap the host's, a container the image's."""


class MountPlan:
    """Collects mounts; each host path once, nested ones after the directories that hold them."""

    def __init__(self, repository: Path, kind: str, owner: tuple[int, int] | None) -> None:
        self._repository = repository
        self._kind = kind
        self._owner = owner
        self._sources: dict[str, Path] = {}
        self._readable: dict[str, Path] = {}
        self.notes: list[str] = []

    def mounts(self) -> tuple[Mount, ...]:
        """Read-only mounts, outer ones first."""
        return tuple(Mount(self._readable[target], target) for target in sorted(self._readable))

    def add_interpreter(self, interpreter: Interpreter) -> None:
        """The environment, its base interpreter, and every symlink on the way between them."""
        if interpreter.is_venv:
            self._add(interpreter.prefix)
        if self._is_broad(interpreter.base_prefix):
            self._add_parts(interpreter)
        else:
            self._add(interpreter.base_prefix)
        if interpreter.user_base is not None:
            for directory in interpreter.site_dirs:
                if directory.is_relative_to(interpreter.user_base):
                    self._add(directory)
        for library in interpreter.libraries:
            self._add_library(library)
        for hop in _hops(interpreter):
            self._add_hop(hop, interpreter.base_binary)

    def add_directory(self, path: Path) -> None:
        """All of a directory, unless that would show the system, a home or the repository."""
        if self._covered(path):
            return
        if self._is_broad(path):
            self.notes.append(f"{path} is too much to show to the sandbox")
        else:
            self._add(path)

    def add_editable(self, installs: Sequence[EditableInstall]) -> None:
        """Sources of *other* projects that the environment points at."""
        for install in installs:
            location = Path(install.location)
            if location.resolve().is_relative_to(self._repository.resolve()):
                continue
            if not location.exists() or self._covered(location):
                continue
            if self._is_broad(location):
                self.notes.append(f"{install.name} points at {location}, too much to show to the sandbox")
            else:
                self._add(location)

    def _add(self, path: Path) -> None:
        """A directory or file at its own path and, when symlinks lead to it, at its real path too."""
        real = path.resolve()
        source, note = readable_source(real, self._owner)
        if note and note not in self.notes:
            self.notes.append(note)
        for target in (path, real):
            if not self._covered(target):
                self._sources[str(target)] = real
                self._readable[str(target)] = source

    def _add_parts(self, interpreter: Interpreter) -> None:
        """Of a prefix that holds far more than Python, only Python's own parts."""
        parts = [*interpreter.stdlib]
        sees_base = not interpreter.is_venv
        parts += [
            directory
            for directory in interpreter.site_dirs
            if sees_base or not directory.is_relative_to(interpreter.prefix)
        ]
        for part in (interpreter.base_binary, *parts):
            if not (self._kind == "bwrap" and _is_system(part)):
                self._add(part)

    def _add_library(self, library: Path) -> None:
        """A shared library outside the prefix, with its directory: loaders ask for it by its links there."""
        if _is_system(library) or self._covered(library) or not library.is_file():
            return
        directory = library.parent
        self._add(library if self._is_broad(directory) else directory)

    def _add_hop(self, hop: Path, binary: Path) -> None:
        if self._covered(hop):
            return
        if _is_system(hop):
            if self._kind == "docker":
                self._add_file(hop, binary)
            return
        for ancestor in hop.parents:
            real = ancestor.resolve()
            target = str(real)
            if real != ancestor and target in self._sources:
                # A directory link, such as a minor-version alias beside the real installation.
                self._sources[str(ancestor)] = real
                self._readable[str(ancestor)] = self._readable[target]
                return
        if hop.is_symlink():
            self._add_link_directory(hop)
        else:
            self._add_file(hop, binary)

    def _add_file(self, target: Path, source: Path) -> None:
        readable, _ = readable_source(source, self._owner)
        self._sources[str(target)] = source
        self._readable[str(target)] = readable

    def _add_link_directory(self, hop: Path) -> None:
        """A directory holding nothing but the links (of an own bin directory in a home, say)."""
        directory = hop.parent
        links = {hop.name: str(hop.readlink())}
        inner = [target for target in self._sources if Path(target).is_relative_to(directory)]
        points = sorted(str(Path(target).relative_to(directory)) for target in inner)
        key = hashlib.sha256(repr((str(directory), links, points)).encode()).hexdigest()[:32]
        place = cache_directory() / "links" / key
        if not place.exists():
            _make_link_directory(place, links, directory, inner)
        self._sources[str(directory)] = place
        self._readable[str(directory)] = place

    def _covered(self, path: Path) -> bool:
        return any(path.is_relative_to(target) for target in self._sources)

    def _is_broad(self, prefix: Path) -> bool:
        """Whether showing all of a directory would show the system, a home or the repository itself."""
        real = prefix.resolve()
        if str(real) in ("/", "/usr", "/usr/local", "/opt", "/home"):
            return True
        return any(
            place.is_relative_to(real) for place in (self._repository.resolve(), Path.home().resolve())
        )


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(root) for root in _SYSTEM)


def _hops(interpreter: Interpreter) -> list[Path]:
    """Every path the interpreter's start goes through: links and pyvenv.cfg's home."""
    hops: list[Path] = []
    path = interpreter.path
    for _ in range(40):
        hops.append(path)
        if not path.is_symlink():
            break
        target = path.readlink()
        path = target if target.is_absolute() else path.parent / target
    if interpreter.is_venv:
        home = pyvenv_home(interpreter.prefix)
        if home is not None:
            hops += [home / name for name in (interpreter.path.name, interpreter.base_binary.name)]
    return [hop for hop in dict.fromkeys(hops) if hop.exists()]


def _make_link_directory(place: Path, links: dict[str, str], directory: Path, inner: list[str]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".linking-", dir=place.parent))
    try:
        for name, target in links.items():
            (scratch / name).symlink_to(target)
        for mounted in inner:
            # A read-only directory cannot get its mount points later.
            (scratch / Path(mounted).relative_to(directory)).mkdir(parents=True, exist_ok=True)
        for made in (scratch, *scratch.rglob("*")):
            if not made.is_symlink():
                made.chmod(0o755)
        try:
            scratch.rename(place)
        except OSError:
            # Another run made the same directory first.
            if not place.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
