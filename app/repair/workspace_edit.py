"""Candidates in the workspace: written, tested, and always taken back."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import atomic_write
from ...sandbox.workspace import Workspace
from .candidates import Candidate
from .source import ModuleSource


class TestFileTouched(ToolError):
    """A candidate would edit a test: refused, whatever the ranking says."""

    __test__ = False


@contextmanager
def applied(workspace: Workspace, source: ModuleSource, candidate: Candidate) -> Generator[None]:
    """The workspace with the candidate's file edited; the old bytes come back whatever happens.

    Both writes are synchronous, so a cancelled task can never leave between them.
    """
    path = workspace.resolve(candidate.path)
    before = path.read_bytes()
    atomic_write(path, source.encode(candidate.text(source)))
    try:
        yield
    finally:
        atomic_write(path, before)


def keep(workspace: Workspace, source: ModuleSource, candidate: Candidate) -> None:
    """Writes the candidate for good."""
    atomic_write(workspace.resolve(candidate.path), source.encode(candidate.text(source)))


def encodable(source: ModuleSource, candidate: Candidate) -> bool:
    """Whether the file's own encoding can hold the new text."""
    try:
        source.encode(candidate.text(source))
    except UnicodeEncodeError:
        return False
    return True
