"""The uniform test report every adapter gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    """The test ran and an assertion or exception failed it."""
    ERROR = "error"
    """Set-up, tear-down or collection failed."""
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    TIMEOUT = "timeout"
    """The per-test limit ended it."""
    CRASHED = "crashed"
    """The process died while this test ran."""

    @property
    def bad(self) -> bool:
        return self in _BAD


_BAD = frozenset({Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT, Outcome.CRASHED})


@dataclass(frozen=True)
class TraceFrame:
    """One frame of a traceback, outermost first in lists."""

    path: str
    """Repository-relative with forward slashes where the file lies in the repository, else absolute."""
    line: int
    function: str
    code: str = ""
    in_repository: bool = True


@dataclass(frozen=True)
class TestCase:
    """One test's outcome. ``id`` is what the framework accepts to run this test alone."""

    __test__: ClassVar[bool] = False
    """Not a test class itself, whatever pytest thinks of the name."""

    id: str
    outcome: Outcome
    duration_s: float = 0.0
    exception: str = ""
    """Exception class name, e.g. ``AssertionError``."""
    message: str = ""
    """First line(s) of the failure, bounded."""
    frames: tuple[TraceFrame, ...] = ()
    output: str = ""
    """Captured stdout and stderr, bounded head and tail."""
    path: str = ""
    """Repository-relative test file."""
    line: int = 0


@dataclass(frozen=True)
class CollectionError:
    """A file whose tests could not even be collected."""

    path: str
    exception: str
    message: str
    frames: tuple[TraceFrame, ...] = ()


@dataclass(frozen=True)
class TestReport:
    """Outcome of one run of a test command."""

    __test__: ClassVar[bool] = False

    cases: tuple[TestCase, ...]
    collection_errors: tuple[CollectionError, ...] = ()
    coverage: Mapping[str, Mapping[str, frozenset[int]]] = field(
        default_factory=dict[str, Mapping[str, frozenset[int]]]
    )
    """test id -> repository-relative path -> executed lines; empty unless asked for."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """test id ("" outside of tests) -> what was observed, as ``inside/values.py`` writes it."""
    complete: bool = True
    """False when the run was cut short (timeout, crash, fail-fast)."""
    note: str = ""

    def failing(self) -> tuple[TestCase, ...]:
        return tuple(case for case in self.cases if case.outcome.bad)

    def passing_ids(self) -> frozenset[str]:
        good = (Outcome.PASSED, Outcome.XFAILED, Outcome.XPASSED)
        return frozenset(case.id for case in self.cases if case.outcome in good)

    def by_id(self) -> dict[str, TestCase]:
        return {case.id: case for case in self.cases}

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for case in self.cases:
            counts[case.outcome.value] = counts.get(case.outcome.value, 0) + 1
        if self.collection_errors:
            counts["collection_error"] = len(self.collection_errors)
        return counts


def summary_line(counts: Mapping[str, int]) -> str:
    """``3 passed, 1 failed`` in a stable order; ``no tests`` when empty."""
    order: Iterable[str] = [o.value for o in Outcome] + ["collection_error"]
    parts = [f"{counts[key]} {key}" for key in order if counts.get(key)]
    return ", ".join(parts) or "no tests"
