"""Fault localisation: which functions and lines are suspicious, and why.

Evidence from the failing tests is fused into one suspicion per statement; what it is made of is
said in ``localisation.ranking``. Without coverage the tracebacks and what the tests call are
used, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...sandbox.base.errors import ToolError
from ..tools.base import ToolContext
from .baseline import Baseline
from .localisation.features import MOST_TESTS, gather
from .localisation.history import remembered
from .localisation.items import is_candidate
from .localisation.model import Localisation, Location
from .localisation.outline import Outline
from .localisation.ranking import rank
from .localisation.testview import Read, TestFiles
from .source import ModuleSource, UnreadableSource
from .spectra import Spectrum

__all__ = ["Localisation", "Location", "localise", "out_of_reach", "owner_of", "rank_baseline"]


def localise(context: ToolContext, baseline: Baseline) -> Localisation:
    """Ranks the places that may explain the baseline's failing tests."""
    return rank_baseline(context.workspace.read, baseline, remembered(context))


def rank_baseline(
    read: Read,
    baseline: Baseline,
    recent: Mapping[str, Mapping[int, float]] | None = None,
    tests: TestFiles | None = None,
) -> Localisation:
    """The same from a reader of files.

    Args:
        recent: how recently each line changed, 0 to 1; path -> line -> recency.
        tests: test files that were parsed before, where several rankings share them.
    """
    notes: list[str] = []
    failing = [case.id for case in baseline.failing]
    coverage = {
        test: {path: lines for path, lines in files.items() if is_candidate(path)}
        for test, files in baseline.coverage.items()
    }
    spectrum = Spectrum(coverage, failing, sorted(baseline.passing))
    if not spectrum.lines:
        notes.append("no line coverage of the failing tests: the ranking rests on their tracebacks alone")
    paths = set(spectrum.lines)
    for case in [*baseline.failing, *baseline.broken]:
        paths |= {frame.path for frame in case.frames if frame.in_repository and is_candidate(frame.path)}
    if not paths:
        # What a class's declaration makes has no lines of its own; others of the test's file run the module.
        beside = {case.path for case in baseline.failing}
        near = [case.id for case in baseline.report.cases if case.path in beside]
        paths = {path for test in near for path in coverage.get(test, {})}
    outlines: dict[str, Outline] = {}
    for path in sorted(paths):
        try:
            outlines[path] = Outline(ModuleSource(path, read(path)))
        except (UnreadableSource, ToolError) as error:
            notes.append(f"left out: {error}")
    passing = [case for case in baseline.report.cases if case.id in baseline.passing]
    tests = tests or TestFiles(read)
    evidence = gather(
        outlines, spectrum, baseline.failing, baseline.broken, passing, tests, baseline.coverage, recent or {}
    )
    mentioned = [tests.mentions(case) for case in baseline.failing[:MOST_TESTS]]
    return rank(outlines, evidence, notes, frozenset[str]().union(*mentioned))


def out_of_reach(baseline: Baseline) -> tuple[str, ...]:
    """Failing tests that ran no line of the project outside tests: no edit of source can change them.

    Empty without coverage, and when it would be all of them.
    """
    if not baseline.coverage:
        return ()
    lost: list[str] = []
    for case in baseline.failing:
        ran = any(is_candidate(path) and lines for path, lines in baseline.coverage.get(case.id, {}).items())
        if not ran and not any(frame.in_repository and is_candidate(frame.path) for frame in case.frames):
            lost.append(case.id)
    return tuple(lost) if len(lost) < len(baseline.targets) else ()


def owner_of(source: ModuleSource, line: int) -> str:
    """Dotted name of the innermost function around a line, or ``<module>``."""
    return Outline(source).owner_of(line)
