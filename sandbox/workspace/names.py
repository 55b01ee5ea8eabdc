"""What a path's name tells: tool litter, secrets, test files."""

from __future__ import annotations

import re
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
