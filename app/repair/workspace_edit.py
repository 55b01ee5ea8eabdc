"""Candidates in the workspace: written, tested, and always taken back."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ...sandbox.base.errors import ToolError
from ...sandbox.workspace import Workspace
from ...sandbox.workspace.names import is_test_path
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
    before = workspace.read(candidate.path)
    keep(workspace, source, candidate)
    try:
        yield
    finally:
        workspace.write(candidate.path, before)


def keep(workspace: Workspace, source: ModuleSource, candidate: Candidate) -> None:
    """Writes the candidate for good.

    Raises:
        TestFileTouched: it would edit a test.
    """
    if is_test_path(candidate.path):
        raise TestFileTouched(f"{candidate.path} is a test, and repair never edits tests")
    workspace.write(candidate.path, source.encode(candidate.text(source)))


def encodable(source: ModuleSource, candidate: Candidate) -> bool:
    """Whether the file's own encoding can hold the new text."""
    try:
        source.encode(candidate.text(source))
    except UnicodeEncodeError:
        return False
    return True
