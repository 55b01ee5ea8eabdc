"""Which files are tests: read-only for repair."""

from __future__ import annotations

from pathlib import PurePosixPath

_FOLDERS = frozenset(("tests", "test", "testing_support"))


def is_test_path(path: str) -> bool:
    """Whether a repository-relative path is a test, a test helper or test configuration."""
    pure = PurePosixPath(path)
    if _FOLDERS & {part.lower() for part in pure.parts[:-1]}:
        return True
    stem = pure.stem
    return (
        pure.name in ("conftest.py", "tests.py")
        or stem.startswith("test_")
        or stem.endswith(("_test", "_tests"))
    )
