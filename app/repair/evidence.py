"""What the failing tests showed, as far as it guides the choice of edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..repo.testing.report import TestCase
from .localisation.testview import TestFiles

_EXPECTED = re.compile(r"DID NOT RAISE\W+(?:class\W+)?([\w.]+)|(\w+) not raised")
_IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b(?!\s*\()")
_WAITING = ("raises", "assertRaises", "assertRaisesRegex")
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
    def of(cls, cases: Iterable[TestCase], tests: TestFiles | None = None) -> Evidence:
        """``tests``: the source of the tests, to see what one waited for when something else came."""
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
            if tests is not None:
                waited = _waited_for(case, tests.tree(case.path))
                expected.update(dict.fromkeys(each for each in waited if each not in raised))
        return cls(tuple(raised), tuple(expected), tuple(names), tuple(raised_at))


def _waited_for(case: TestCase, tree: ast.Module | None) -> list[str]:
    """Exceptions of the ``with pytest.raises(...)`` blocks around the failing line of a test."""
    lines = [frame.line for frame in case.frames if frame.path == case.path]
    found: list[str] = []
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, (ast.With, ast.AsyncWith)):
            continue
        if not any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines):
            continue
        for call in [item.context_expr for item in node.items]:
            name = (
                getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
            )
            if not isinstance(call, ast.Call) or name not in _WAITING or not call.args:
                continue
            named = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else [call.args[0]]
            found += [ast.unparse(each).rpartition(".")[2] for each in named]
    return found
