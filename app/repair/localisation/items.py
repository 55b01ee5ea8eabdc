"""The statements that may be the fault, each with a place for its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....sandbox.workspace.names import is_test_path
from ...repo.testing.report import CollectionError, TestCase
from ..spectra import Spectrum
from .outline import Statement
from .reach import Project
from .traits import kind_of


@dataclass
class Item:
    """One statement with its evidence; ``trace`` says which frames of which tests it is in."""

    path: str
    statement: Statement
    tests: int
    values: dict[str, float] = field(default_factory=dict[str, float])
    frames: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """(test, exception, frames between this and where it was raised)."""


def find_items(
    project: Project, spectrum: Spectrum, cases: Sequence[TestCase | CollectionError]
) -> list[Item]:
    """What a failing test ran or what is in a traceback, by path and line."""
    wanted: dict[tuple[str, int], int] = {}
    for path, executed in project.executed.items():
        for statement in project.outlines[path].statements:
            tests = executed.statements[statement.index]
            if tests & spectrum.failing_mask:
                wanted[path, statement.index] = tests
    for case in cases:
        for frame in case.frames:
            outline = project.outlines.get(frame.path)
            statement = outline.at.get(frame.line) if outline is not None else None
            if statement is not None:
                wanted.setdefault((frame.path, statement.index), 0)
    return [
        Item(path, project.outlines[path].statements[index], tests)
        for (path, index), tests in sorted(wanted.items())
        if kind_of(project.outlines[path].statements[index]) not in ("text", "import")
    ]


def is_candidate(path: str) -> bool:
    """Whether a fault may be looked for in the file: a project's Python file that is no test."""
    return path.endswith(".py") and not path.startswith(("/", "..")) and not is_test_path(path)
