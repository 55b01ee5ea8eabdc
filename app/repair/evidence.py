"""What the failing tests showed, as far as it guides the choice of edits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..repo.testing.report import TestCase

_EXPECTED = re.compile(r"DID NOT RAISE\W+(?:class\W+)?([\w.]+)|(\w+) not raised")
_IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b(?!\s*\()")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


@dataclass(frozen=True)
class Evidence:
    """Exception class names without their modules, in test order."""

    raised: tuple[str, ...] = ()
    """What ended the failing tests, other than assertions."""
    expected: tuple[str, ...] = ()
    """Exceptions that tests waited for in vain."""
    names: tuple[str, ...] = ()
    """Identifiers in the failing lines of the tests that are not called there, in order."""
    raised_at: tuple[tuple[str, int], ...] = ()
    """(path, line) of the repository's last frame before each exception."""

    @classmethod
    def of(cls, cases: Iterable[TestCase]) -> Evidence:
        raised: dict[str, None] = {}
        expected: dict[str, None] = {}
        names: dict[str, None] = {}
        raised_at: dict[tuple[str, int], None] = {}
        for case in cases:
            for frame in case.frames:
                if frame.path == case.path:
                    names.update(dict.fromkeys(_IDENTIFIER.findall(frame.code)))
            name = case.exception.rpartition(".")[2]
            if _NAME.match(name) and name not in ("AssertionError", "Failed"):
                raised[name] = None
                last = [frame for frame in case.frames if frame.in_repository][-1:]
                raised_at.update(dict.fromkeys((frame.path, frame.line) for frame in last))
            for match in _EXPECTED.finditer(case.message):
                expected[(match[1] or match[2]).rpartition(".")[2]] = None
        return cls(tuple(raised), tuple(expected), tuple(names), tuple(raised_at))
