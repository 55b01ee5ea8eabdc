"""What a path's name tells: tool litter, secrets, test files."""

from __future__ import annotations

import re
import sys
from pathlib import PurePosixPath

_LITTER_DIRECTORIES = frozenset(
    {
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".whimbrel",
    }
)
_LITTER_FILE = re.compile(r"\.py[cod]$|^\.coverage(\..+)?$|^nohup\.out$|^core\.\d+$|^\.nfs[0-9a-f]+$")
_SECRET = re.compile(
    r"^\.env(\..+)?$|\.env$|^\.netrc$|^\.pgpass$|^\.npmrc$|^\.pypirc$|^\.htpasswd$|^id_(rsa|dsa|ecdsa|ed25519)$"
    r"|\.(pem|key|p12|pfx|jks|keystore|kdbx)$|^credentials(\.json|\.ya?ml)?$|^secrets?\.(json|ya?ml|toml|env)$"
    r"|service[-_]account.*\.json$",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(r"\.(example|sample|template|dist)$", re.IGNORECASE)
_TEST_DIRECTORIES = frozenset({"test", "tests", "testing", "spec", "specs", "__tests__"})
_TEST_FILE = re.compile(
    r"^test_.+|.+_test\.[a-z]+$|^tests?\.py$|^conftest\.py$|.+[._-](test|spec)\.[cm]?[jt]sx?$"
    r"|.+Tests?\.(java|cs|kt|php)$|.+_spec\.rb$"
)

_TEST_CONFIGURATION = re.compile(
    # pytest, tox and nose read these; setup.cfg and pyproject.toml hold the same settings.
    r"^conftest\.py$|^\.?pytest\.(ini|toml)$|^tox\.(ini|toml)$|^setup\.cfg$|^pyproject\.toml$|^noxfile\.py$"
    # The interpreter runs these before any test.
    r"|^(site|user)customize\.py$|\.pth$|\.start$"
    # Test commands and runners of other kinds.
    r"|^(GNU)?[Mm]akefile$|^package\.json$|^(jest|vitest|vite|karma|ava|playwright|cypress)\.(config|conf)\."
    r"|^\.mocharc(\..+)?$|^phpunit\.xml(\.dist)?$|^\.rspec$"
    r"|^CMakeLists\.txt$|^CTest\w*\.cmake$|^pom\.xml$|^Cargo\.toml$|^go\.(mod|work)$|^vitest\.workspace\."
)
_RUNNER_MODULES = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "py", "nose", "mock", "coverage", "hypothesis", "xdist"}
)
_TEST_MODULE = re.compile(
    r"^test_.+\.py$|.+_test\.[a-z]+$|^tests?\.py$|.+[._-](test|spec)\.[cm]?[jt]sx?$"
    r"|.+Tests?\.(java|cs|kt|php)$|.+_spec\.rb$"
)
_JUNK_DIRECTORIES = frozenset({"node_modules", ".cache", ".npm", "htmlcov", ".idea", ".vscode"})
_JUNK_FILE = re.compile(
    r"\.(log|tmp|temp|bak|orig|rej|swp|swo|patch|diff)$|~$|^\.DS_Store$|^core$|^nohup\.out$", re.IGNORECASE
)


def is_git_internal(path: str) -> bool:
    """Whether any component is ``.git`` in any letter case."""
    return any(part.lower() == ".git" for part in path.split("/"))


def is_litter(path: str) -> bool:
    """Whether tools leave such files behind and nobody wants them in a patch."""
    *directories, name = path.split("/")
    if any(part in _LITTER_DIRECTORIES or part.endswith(".egg-info") for part in directories):
        return True
    return name in _LITTER_DIRECTORIES or _LITTER_FILE.search(name) is not None


def looks_secret(path: str) -> bool:
    """Whether the name is one that usually holds credentials."""
    name = PurePosixPath(path).name
    return _SECRET.search(name) is not None and not _NO_SECRET.search(name)


def is_test_path(path: str) -> bool:
    """Whether the path is, by the usual conventions, part of the tests."""
    *directories, name = path.split("/")
    return (
        any(part.lower() in _TEST_DIRECTORIES for part in directories) or _TEST_FILE.match(name) is not None
    )


def is_test_module(path: str) -> bool:
    """Whether the file holds tests itself, and is no helper, data or configuration of tests."""
    return _TEST_MODULE.match(path.rpartition("/")[2]) is not None


def is_test_configuration(path: str, *, new: bool = False) -> bool:
    """Whether a change of the file can decide which tests run, how, or with what outcome.

    ``new``: the file did not exist before; then also one that takes the place of a module of the
    test framework or of the standard library.
    """
    *directories, name = path.split("/")
    if _TEST_CONFIGURATION.search(name) or any(
        part.endswith((".egg-info", ".dist-info")) for part in directories
    ):
        return True
    return new and _takes_the_place_of_a_module(directories, name)


def is_junk(path: str) -> bool:
    """Whether a new file of this name is a left-over of work rather than part of a change."""
    *directories, name = path.split("/")
    return any(part in _JUNK_DIRECTORIES for part in directories) or _JUNK_FILE.search(name) is not None


def _takes_the_place_of_a_module(directories: list[str], name: str) -> bool:
    if directories[:1] == ["src"]:
        directories = directories[1:]
    if not directories and name.endswith(".py"):
        module = name.removesuffix(".py")
    elif len(directories) == 1 and name == "__init__.py":
        module = directories[0]
    else:
        return False
    return module in _RUNNER_MODULES or module in sys.stdlib_module_names
