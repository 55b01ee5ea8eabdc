"""Ranks of the faulty function and line, for Whimbrel and for plain Ochiai on the same data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from whimbrel.app.repair.localisation.items import is_candidate
from whimbrel.app.repair.localisation.outline import Outline
from whimbrel.app.repair.localisation.testview import TestFiles
from whimbrel.app.repair.localise import Localisation, rank_baseline
from whimbrel.app.repair.source import ModuleSource
from whimbrel.app.repair.spectra import Spectrum
from whimbrel.sandbox.base.errors import ToolError

from .collect import Mutant

FUNCTION_TOPS = (1, 3, 5)
LINE_TOPS = (1, 5, 10)
_ABSENT = 10**6


@dataclass(frozen=True)
class Measured:
    """Chances (0 or 1, between them where scores tie) that the fault is in the first k."""

    kind: str
    ours: tuple[float, ...]
    ochiai: tuple[float, ...]


def measure_all(mutants: Iterable[Mutant]) -> list[Measured]:
    """All mutants of one library: their tests are the same, and parsed once."""
    rows: list[Measured] = []
    tests: TestFiles | None = None
    for mutant in mutants:
        tests = tests or TestFiles(reader(mutant.sources))
        rows.append(measure(mutant, tests))
    return rows


def measure(mutant: Mutant, tests: TestFiles | None = None) -> Measured:
    localisation = rank_baseline(reader(mutant.sources), mutant.baseline, tests=tests)
    return Measured(mutant.mutation.kind, _ours(mutant, localisation), _plain(mutant))


def reader(sources: Mapping[str, bytes]):
    def read(path: str) -> bytes:
        try:
            return sources[path]
        except KeyError:
            raise ToolError(f"{path} does not exist") from None

    return read


def _ours(mutant: Mutant, found: Localisation) -> tuple[float, ...]:
    mutation = mutant.mutation
    functions = [(place.path, place.function) for place in found.locations]
    key = (mutation.path, mutation.function)
    function = functions.index(key) if key in functions else _ABSENT
    line = next(
        (
            n
            for n, place in enumerate(found.statements)
            if place.path == mutation.path and _on(place.line, place.end_line, mutation.lines)
        ),
        _ABSENT,
    )
    return (*(float(function < k) for k in FUNCTION_TOPS), *(float(line < k) for k in LINE_TOPS))


def _on(first: int, last: int, lines: Sequence[int]) -> bool:
    return any(first <= line <= last for line in lines)


def _plain(mutant: Mutant) -> tuple[float, ...]:
    """Ochiai of every statement that a failing test ran; a function's is the highest in it."""
    mutation, baseline = mutant.mutation, mutant.baseline
    coverage = {
        test: {path: lines for path, lines in files.items() if is_candidate(path)}
        for test, files in baseline.coverage.items()
    }
    spectrum = Spectrum(coverage, [case.id for case in baseline.failing], sorted(baseline.passing))
    statements: list[tuple[float, bool]] = []
    functions: dict[tuple[str, str], float] = {}
    for path, lines in spectrum.lines.items():
        outline = Outline(ModuleSource(path, mutant.sources[path]))
        scores: dict[int, float] = {}
        for line, tests in lines.items():
            statement = outline.at.get(line)
            if statement is not None and spectrum.ochiai(tests):
                scores[statement.index] = max(scores.get(statement.index, 0.0), spectrum.ochiai(tests))
        for index, score in scores.items():
            statement = outline.statements[index]
            functions[path, statement.function] = max(score, functions.get((path, statement.function), 0.0))
            right = path == mutation.path and _on(statement.first, statement.last, mutation.lines)
            statements.append((score, right))
    named = [(score, place == (mutation.path, mutation.function)) for place, score in functions.items()]
    return (*(_chance(named, k) for k in FUNCTION_TOPS), *(_chance(statements, k) for k in LINE_TOPS))


def _chance(scored: Sequence[tuple[float, bool]], k: int) -> float:
    """That a right one is among the first k when equal scores come in random order."""
    best = max((score for score, right in scored if right), default=None)
    if best is None:
        return 0.0
    above = sum(score > best for score, _ in scored)
    equal = sum(score == best for score, _ in scored)
    rights = sum(right and score == best for score, right in scored)
    room = k - above
    if room <= 0:
        return 0.0
    if room >= equal:
        return 1.0
    missed = 1.0
    for drawn in range(room):
        missed *= max(0.0, (equal - rights - drawn) / (equal - drawn))
    return 1.0 - missed


@dataclass
class Table:
    rows: list[Measured] = field(default_factory=list)

    def shares(self, ours: bool) -> list[float]:
        values = [row.ours if ours else row.ochiai for row in self.rows]
        return [100 * sum(column) / len(values) for column in zip(*values, strict=True)] if values else []
