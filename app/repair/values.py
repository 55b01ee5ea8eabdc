"""Run-time values and types seen at places of the program, test by test.

A place is a ``Spot``: a line (the scope before its statement), an expression (the scope
before it, and its value) or a function (its arguments and what it returned). ``observe``
runs tests once, in a fresh process, and gives what was seen; see
``app/repo/testing/inside/values.py`` for the bounds.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from ..repo.testing.runner import TestRunner
from .source import Function

_MOST_TEXT = 4000
_MOST_DEPTH = 12
NONE = "NoneType"


@dataclass(frozen=True, order=True)
class Spot:
    """A place to look at; positions as ``ast`` gives them (1-based lines, UTF-8 columns)."""

    path: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    kind: str = "line"

    @classmethod
    def at(cls, path: str, line: int) -> Spot:
        """The scope just before the statement on a line."""
        return cls(path, line)

    @classmethod
    def of(cls, path: str, node: ast.expr) -> Spot:
        """The scope before an expression, and the expression's value."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return cls(path, node.lineno, node.col_offset, end_line, end_column, "value")

    @classmethod
    def call(cls, path: str, function: Function) -> Spot:
        """A function's arguments, and what it returned."""
        return cls(path, function.lineno, kind="call")

    def wanted(self) -> dict[str, Any]:
        """The place as the helper inside the sandbox reads it."""
        return {
            "path": self.path,
            "kind": self.kind,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
        }


@dataclass(frozen=True)
class Seen:
    """One value. ``exact``: ``value`` equals what the program had (never change it, it is shared).

    ``attributes`` are those of an object that is no plain value, one level deep.
    """

    type: str
    """``int``, ``NoneType``, ``shop.cart.Line`` ..."""
    exact: bool = False
    value: Any = None
    text: str = ""
    """How it is written, or its start; empty when only the type is known."""
    length: int | None = None
    attributes: Mapping[str, Seen] = field(default_factory=dict[str, "Seen"])


@dataclass(frozen=True)
class Snapshot:
    """One hit of a spot: local names, plain values at module level, and the value (None: it raised)."""

    names: Mapping[str, Seen]
    outer: Mapping[str, Seen] = field(default_factory=dict[str, Seen])
    result: Seen | None = None

    def get(self, name: str) -> Seen | None:
        """A local name, else one of the module."""
        return self.names.get(name) or self.outer.get(name)


class RuntimeValues:
    """What was seen, by spot and test, in the order in which it happened.

    Args:
        spots: the places that were asked for, in the order of their numbers in the report.
        observed: a report's ``values``.
        whole: no limit of time ended the run.
    """

    def __init__(
        self, spots: Sequence[Spot], observed: Mapping[str, Mapping[str, Any]], *, whole: bool = True
    ) -> None:
        self.whole = whole
        self._seen: dict[Spot, dict[str, tuple[Snapshot, ...]]] = {}
        self._hits: dict[tuple[Spot, str], int] = {}
        for test, event in observed.items():
            rows = _rows(event.get("table", ()))
            for key, entry in event.get("spots", {}).items():
                number = int(key)
                if not 0 <= number < len(spots):
                    continue
                spot = spots[number]
                self._hits[spot, test] = int(entry["hits"])
                self._seen.setdefault(spot, {})[test] = tuple(_snapshot(each, rows) for each in entry["seen"])

    @property
    def spots(self) -> tuple[Spot, ...]:
        """Places that were reached at all, in source order."""
        return tuple(sorted(self._seen))

    def at(self, spot: Spot) -> Mapping[str, Sequence[Snapshot]]:
        """Test id -> its first snapshots (the key "" holds what ran outside of tests)."""
        return self._seen.get(spot, {})

    def hits(self, spot: Spot, test: str) -> int:
        """How often a test came by; may be more than there are snapshots."""
        return self._hits.get((spot, test), 0)

    def names(self, path: str, first: int, last: int) -> Mapping[str, Sequence[Seen]]:
        """Everything seen of each name between two lines of a file."""
        found: dict[str, list[Seen]] = {}
        for line, snapshot in self._by_path.get(path, ()):
            if first <= line <= last:
                for name, seen in snapshot.names.items():
                    found.setdefault(name, []).append(seen)
        return found

    @cached_property
    def _by_path(self) -> Mapping[str, Sequence[tuple[int, Snapshot]]]:
        found: dict[str, list[tuple[int, Snapshot]]] = {}
        for spot in self.spots:
            for snapshots in self._seen[spot].values():
                found.setdefault(spot.path, []).extend((spot.line, each) for each in snapshots)
        return found


def types_of(seen: Iterable[Seen]) -> tuple[str, ...]:
    """Distinct type names, the commonest first."""
    counts = Counter(each.type for each in seen)
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


def places_of(lines: Mapping[str, Mapping[int, float]], most: int = 120) -> list[Spot]:
    """The most suspicious lines as places to look at: what families ask about lies there."""
    ranked = sorted(
        (-round(score, 6), path, line) for path, scores in lines.items() for line, score in scores.items()
    )
    return [Spot.at(path, line) for _, path, line in ranked[:most]]


async def observe(
    runner: TestRunner, tests: Sequence[str], spots: Sequence[Spot], *, timeout_s: float | None = None
) -> RuntimeValues:
    """Runs the tests in a fresh process and gives what was seen at the spots.

    Plain commands cannot be looked into: then nothing was seen.

    Raises:
        EnvironmentBroken: the interpreter does not start.
        SandboxDied: the sandbox went away.
    """
    chosen = tuple(dict.fromkeys(spots))
    if not chosen or not tests:
        return RuntimeValues((), {})
    run = await runner.run(
        tests, purpose="values", timeout_s=timeout_s, observe=[spot.wanted() for spot in chosen]
    )
    return RuntimeValues(chosen, run.report.values, whole=not run.result.timed_out)


def _rows(table: Sequence[Mapping[str, Any]]) -> list[Seen]:
    rows: list[Seen] = []
    for row in table:
        # Attributes are described before the object that has them.
        inner = {str(name): rows[index] for name, index in row.get("a", {}).items() if 0 <= index < len(rows)}
        text = row.get("v")
        exact, value = (False, None) if not isinstance(text, str) else decode(text)
        shown = text if isinstance(text, str) else row.get("r", "")
        rows.append(Seen(str(row.get("t", "")), exact, value, str(shown), row.get("n"), inner))
    return rows


def _snapshot(entry: Mapping[str, Any], rows: Sequence[Seen]) -> Snapshot:
    def read(key: str) -> dict[str, Seen]:
        return {str(name): rows[index] for name, index in entry.get(key, {}).items()}

    result = entry.get("r")
    return Snapshot(read("s"), read("g"), None if result is None else rows[result])


@lru_cache(maxsize=65536)
def decode(text: str) -> tuple[bool, Any]:
    """(True, the value) that a piece of text written by the helper stands for, or (False, None).

    The text comes from a process that runs the project's code: nothing is evaluated but
    literals, ``inf``, ``nan``, ``range``, ``set()`` and ``frozenset(...)``.
    """
    if len(text) > _MOST_TEXT:
        return False, None
    try:
        return True, _value(ast.parse(text, mode="eval").body, 0)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False, None


def _value(node: ast.expr, depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() | bytes()):
            return node.value
        case ast.Name(id="inf" | "nan"):
            return float(node.id)
        case ast.UnaryOp(op=ast.USub()):
            value = _value(node.operand, depth + 1)
            if type(value) not in (int, float):
                raise ValueError("only numbers have a sign")
            return -value
        case ast.List():
            return [_value(each, depth + 1) for each in node.elts]
        case ast.Tuple():
            return tuple(_value(each, depth + 1) for each in node.elts)
        case ast.Set():
            return {_value(each, depth + 1) for each in node.elts}
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_value(key, depth + 1): _value(each, depth + 1) for key, each in pairs if key is not None}
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "range" as name), args=arguments):
            values = [_value(each, depth + 1) for each in arguments]
            return {"set": set, "frozenset": frozenset, "range": range}[name](*values)
        case _:
            raise ValueError("not a literal")
