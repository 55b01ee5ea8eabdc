"""Values that failing tests wait for, as far as their messages and lines show them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from ...repo.testing.report import TestCase
from ..values import decode
from .terms import value_key

_MOST = 8
_MOST_PARTS = 40
_SIDES = re.compile(r"(?:assert\s+|AssertionError:\s*)?(.+?)\s*(?:==|!=)\s*(.+)", re.DOTALL)


def expected_values(cases: Iterable[TestCase]) -> tuple[Any, ...]:
    """Distinct plain values of the failing assertions, the likeliest to be expected first.

    Both sides of ``assert 3 == 4`` are given: which one the program computed is not known.
    """
    found: list[Any] = []
    for case in cases:
        first = next((line for line in case.message.splitlines() if line.strip()), "")
        match = _SIDES.match(first.strip())
        if match:
            found += [side for side in (_read(match[2]), _read(match[1])) if side is not None]
        frame = next((each for each in reversed(case.frames) if each.path == case.path), None)
        if frame is not None:
            found += _literals(frame.code)
    distinct: dict[Any, Any] = {}
    for value in found:
        distinct.setdefault(value_key(value[0]), value[0])
    return tuple(distinct.values())[:_MOST]


def parts_of(values: Iterable[Any]) -> list[Any]:
    """Numbers and texts inside of containers, each once."""
    found: dict[Any, Any] = {}
    pending = [each for value in values if isinstance(value, (list, tuple, dict)) for each in _inner(value)]
    for _ in range(_MOST_PARTS):
        if not pending:
            break
        value = pending.pop(0)
        if isinstance(value, (list, tuple)):
            pending += _inner(value)
        elif type(value) in (int, float, str, bool):
            found.setdefault(value_key(value), value)
    return list(found.values())[:_MOST]


def _inner(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def _read(text: str) -> tuple[Any] | None:
    good, value = decode(text.strip())
    return (value,) if good else None


def _literals(code: str) -> list[tuple[Any]]:
    """Comparators of an assertion's line, then its other literals."""
    try:
        tree = ast.parse(code.strip())
    except (SyntaxError, ValueError):
        return []  # one line of a longer statement
    nodes: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            nodes += node.comparators
        elif isinstance(node, ast.Call):
            nodes += node.args[1:2]  # assertEqual(actual, expected)
    read = [_read(ast.unparse(node)) for node in nodes]
    return [each for each in read if each is not None]
