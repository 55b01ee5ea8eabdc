"""What a failure says about the environment: one failing test or collection error at a time.

The question is always the same: could a change to the repository's code repair this? A missing
distribution, program, library or service cannot be repaired; a misspelt import can.
"""

from __future__ import annotations

import difflib
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .model import ProjectEnvironment

if TYPE_CHECKING:
    from ..testing.report import TraceFrame

_MODULE: Final = re.compile(r"No module named '?([\w.]+)'?")
_LIBRARY: Final = re.compile(
    r"(?:ImportError|OSError)?:? ?(lib[\w.+-]+\.so[\w.]*): cannot open shared object file"
)
_GLIBC: Final = re.compile(r"version `((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found")
_SYMBOL: Final = re.compile(r"([\w./-]*site-packages[\w./-]+\.so): undefined symbol: (\w+)")
_PROGRAM: Final = re.compile(r"No such file or directory: '([\w.+-]+)'")
_COMPILER: Final = re.compile(
    r"command '([\w./+-]*(?:gcc|g\+\+|cc|clang|c\+\+)[\w.-]*)' failed: No such file"
)
_SHELL: Final = re.compile(r"(?:/bin/)?sh: (?:\d+: |line \d+: )?([\w.+-]+): (?:command )?not found")
_REFUSED: Final = re.compile(
    r"[Cc]onnection refused|ConnectionRefusedError|Errno 111|Can't connect to|could not connect"
)
_PORT: Final = re.compile(r"(?:port[= ]+|localhost[:'\", ]+|127\.0\.0\.1[:'\", ]+)(\d{2,5})")
_NAME_LOOKUP: Final = re.compile(
    r"gaierror|Temporary failure in name resolution|Name or service not known"
    r"|Network is unreachable|Errno 101"
)
_FIXTURE: Final = re.compile(r"fixture '(\w+)' not found|^\('(\w+)', <(?:Fixture|Sub|Top)\w*Request")
_VARIABLE: Final = re.compile(r"^'([A-Z][A-Z0-9_]{2,})'$")
_READ_ONLY: Final = re.compile(r"Read-only file system: '([^']+)'")

_PORTS: Final[Mapping[int, str]] = {
    3306: "MySQL",
    5432: "PostgreSQL",
    5672: "RabbitMQ",
    6379: "Redis",
    9092: "Kafka",
    9200: "Elasticsearch",
    11211: "memcached",
    27017: "MongoDB",
}
_FIXTURE_PLUGINS: Final[Mapping[str, str]] = {
    "aiohttp_client": "pytest-aiohttp",
    "benchmark": "pytest-benchmark",
    "django_db_setup": "pytest-django",
    "freezer": "pytest-freezer",
    "httpserver": "pytest-httpserver",
    "httpx_mock": "pytest-httpx",
    "mocker": "pytest-mock",
    "qtbot": "pytest-qt",
    "requests_mock": "requests-mock",
    "respx_mock": "respx",
    "subtests": "pytest-subtests",
}
_PROGRAMS: Final = frozenset(
    (
        *(
            "bash",
            "cargo",
            "cc",
            "clang",
            "cmake",
            "curl",
            "docker",
            "ffmpeg",
            "g++",
            "gcc",
            "gfortran",
            "git",
        ),
        *("go", "hg", "java", "javac", "make", "mysql", "ninja", "node", "npm", "openssl", "perl", "psql"),
        *("redis-server", "rsync", "ruby", "rustc", "sqlite3", "ssh", "svn", "tar", "unzip", "wget", "zip"),
    )
)
_ALIKE: Final = 0.8
"""Similarity (difflib ratio) from which a missing module's name is taken for a misspelt one."""


@dataclass(frozen=True)
class Failure:
    """A failing test or collection error, whichever it was."""

    where: str
    exception: str
    message: str
    frames: tuple[TraceFrame, ...] = ()
    output: str = ""


@dataclass(frozen=True)
class Cause:
    """Something the environment lacks."""

    missing: str
    """What, in words: ``module numpy``, ``program git``, ``a PostgreSQL service on port 5432``."""
    hint: str
    """How to provide it."""


class CauseFinder:
    """Judges failures of one project in one environment.

    Args:
        root: the workspace copy.
        environment: the verified environment.
    """

    def __init__(self, root: Path, environment: ProjectEnvironment) -> None:
        self._root = root
        self._environment = environment

    def cause(self, failure: Failure) -> Cause | None:
        """What is missing, or None when the code under repair may be at fault."""
        checks: Sequence[Callable[[Failure], Cause | None]] = (
            self._missing_module,
            self._missing_library,
            self._missing_program,
            self._missing_plugin,
            self._missing_network,
            self._missing_variable,
            self._read_only_place,
            self._missing_submodule,
        )
        for check in checks:
            found = check(failure)
            if found is not None:
                return found
        return None

    def module_cause(self, name: str, *, imported_by_project: bool = True) -> Cause | None:
        """Whether a module that cannot be imported is the environment's affair.

        Args:
            imported_by_project: False when an installed package wanted it; then no code of the
                repository can be at fault.
        """
        top = name.partition(".")[0]
        version = self._environment.version
        if self.owns(top):
            return None
        if top in _REMOVED and version >= _REMOVED[top]:
            major, minor, _ = _REMOVED[top]
            return Cause(
                f"the standard library's module {top}, removed in Python {major}.{minor}",
                "use an older Python (--python)",
            )
        if top in sys.stdlib_module_names:
            missing = f"the standard library's module {top}"
            if version[:2] < sys.version_info[:2] and not top.startswith("_"):
                return Cause(missing, f"use a newer Python than {version[0]}.{version[1]} (--python)")
            return Cause(missing, "this Python was built or packaged without it; use another (--python)")
        declared = re.sub(r"[-_.]+", "-", top).lower() in self._declared
        if imported_by_project and not declared and self._misspelt(top):
            return None
        return Cause(f"module {top}", f"install it in {self._where()}")

    def owns(self, top: str) -> bool:
        """Whether the repository holds a module of that name (then its absence is the code's affair)."""
        if top in {module.partition(".")[0] for module in self._environment.modules}:
            return True
        places = ("", *self._environment.import_roots, "src", "lib", "tests", "test")
        for place in places:
            base = self._root / place / top
            if base.with_suffix(".py").is_file() or base.is_dir():
                return True
        return False

    @cached_property
    def _declared(self) -> frozenset[str]:
        names = self._environment.declared
        # Many distributions are named after their module with a prefix or suffix.
        return frozenset(names) | {name.removeprefix("python-").removesuffix("-python") for name in names}

    def _misspelt(self, top: str) -> bool:
        own = (module.partition(".")[0] for module in self._environment.modules)
        known: Iterable[str] = {
            *sys.stdlib_module_names,
            *own,
            *(name.replace("-", "_") for name in self._declared),
        }
        return bool(difflib.get_close_matches(top, known, n=1, cutoff=_ALIKE))

    def _where(self) -> str:
        return "the image" if self._environment.origin == "image" else self._environment.python

    def _missing_module(self, failure: Failure) -> Cause | None:
        match = _MODULE.search(failure.message)
        if failure.exception not in ("ModuleNotFoundError", "ImportError") or match is None:
            return None
        importer = failure.frames[-1] if failure.frames else None
        return self.module_cause(match[1], imported_by_project=importer is None or importer.in_repository)

    def _missing_library(self, failure: Failure) -> Cause | None:
        if match := _LIBRARY.search(failure.message):
            return Cause(f"shared library {match[1]}", "install the system package that holds it")
        if match := _GLIBC.search(failure.message):
            return Cause(f"a C library with {match[1]}", "use a newer image or rebuild the environment")
        if match := _SYMBOL.search(failure.message):
            return Cause(f"symbol {match[2]} wanted by {match[1]}", "reinstall that package for this Python")
        return None

    def _missing_program(self, failure: Failure) -> Cause | None:
        text = f"{failure.message}\n{failure.output}"
        if match := _COMPILER.search(text):
            return Cause(f"compiler {Path(match[1]).name}", "use an image with build tools")
        match = _PROGRAM.search(failure.message) if failure.exception == "FileNotFoundError" else None
        started = any(frame.path.endswith("subprocess.py") for frame in failure.frames[-3:])
        if match is not None and not started and match[1] not in _PROGRAMS:
            # A file the code opens, not a program it starts.
            return None
        match = match or _SHELL.search(text)
        if match is None:
            return None
        name = match[1]
        # A program nobody knows may be a misspelling in the code under repair.
        if name in _PROGRAMS or shutil.which(name):
            return Cause(f"program {name}", f"use an image or machine with {name}")
        return None

    def _missing_plugin(self, failure: Failure) -> Cause | None:
        if match := _FIXTURE.search(failure.message):
            fixture = match[1] or match[2]
            plugin = _FIXTURE_PLUGINS.get(fixture)
            if plugin:
                return Cause(f"pytest plugin {plugin} (fixture {fixture})", f"install it in {self._where()}")
        if "async def functions are not natively supported" in failure.message:
            return Cause(
                "a pytest plugin for async tests", f"install pytest-asyncio or anyio in {self._where()}"
            )
        return None

    def _missing_network(self, failure: Failure) -> Cause | None:
        text = f"{failure.exception}: {failure.message}"
        if _NAME_LOOKUP.search(text):
            return Cause("the network", "allow it (--network, or network = true in a trusted recipe)")
        if _REFUSED.search(text):
            port = _PORT.search(text)
            service = _PORTS.get(int(port[1])) if port else None
            if port and service:
                return Cause(
                    f"a {service} service on port {port[1]}", "start it by services in a trusted recipe"
                )
        return None

    def _missing_variable(self, failure: Failure) -> Cause | None:
        match = _VARIABLE.match(failure.message) if failure.exception == "KeyError" else None
        asked = any(
            frame.path.endswith("os.py") or "os.environ[" in frame.code for frame in failure.frames[-2:]
        )
        if match is None or not asked:
            return None
        return Cause(
            f"environment variable {match[1]}",
            "commands get a scrubbed environment; set it in the env table of a trusted recipe",
        )

    def _read_only_place(self, failure: Failure) -> Cause | None:
        match = _READ_ONLY.search(failure.message)
        if match is None:
            return None
        return Cause(f"a writable {match[1]}", "only the repository and /tmp are writable in the sandbox")

    def _missing_submodule(self, failure: Failure) -> Cause | None:
        if failure.exception != "FileNotFoundError" or not (self._root / ".gitmodules").is_file():
            return None
        text = (self._root / ".gitmodules").read_text(encoding="utf-8", errors="replace")
        for path in re.findall(r"^\s*path\s*=\s*(\S+)", text, re.MULTILINE):
            place = self._root / path
            if f"{path}/" in failure.message and not (place.is_dir() and any(place.iterdir())):
                return Cause(f"submodule {path}", "git submodule update --init")
        return None


_REMOVED: Final[Mapping[str, tuple[int, int, int]]] = {
    **dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), (3, 12, 0)),
    **dict.fromkeys(("formatter", "parser", "symbol"), (3, 10, 0)),
    **dict.fromkeys(("_dummy_thread", "dummy_threading"), (3, 9, 0)),
    **dict.fromkeys(
        (
            *("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "msilib"),
            *(
                "nis",
                "nntplib",
                "ossaudiodev",
                "pipes",
                "sndhdr",
                "spwd",
                "sunau",
                "telnetlib",
                "uu",
                "xdrlib",
            ),
        ),
        (3, 13, 0),
    ),
}
