"""Candidates in the workspace: written, tested, and always taken back."""

from __future__ import annotations

from collections.abc import Generator, Mapping
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
def applied(
    workspace: Workspace, sources: Mapping[str, ModuleSource], candidate: Candidate
) -> Generator[None]:
    """The workspace with the candidate's files edited; the old bytes come back whatever happens.

    All writes are synchronous, so a cancelled task can never leave between them.
    """
    before = {part.path: workspace.read(part.path) for part in candidate.parts}
    keep(workspace, sources, candidate)
    try:
        yield
    finally:
        _write_all(workspace, before)


def keep(workspace: Workspace, sources: Mapping[str, ModuleSource], candidate: Candidate) -> None:
    """Writes the candidate for good: all of its files, or none.

    Raises:
        TestFileTouched: it would edit a test.
    """
    for part in candidate.parts:
        if is_test_path(part.path):
            raise TestFileTouched(f"{part.path} is a test, and repair never edits tests")
    made = _encoded(sources, candidate)
    before = {path: workspace.read(path) for path in made}
    try:
        _write_all(workspace, made)
    except BaseException:
        _write_all(workspace, before)
        raise


def encodable(sources: Mapping[str, ModuleSource], candidate: Candidate) -> bool:
    """Whether each file's own encoding can hold its new text."""
    try:
        _encoded(sources, candidate)
    except UnicodeEncodeError:
        return False
    return True


def _encoded(sources: Mapping[str, ModuleSource], candidate: Candidate) -> dict[str, bytes]:
    edited = [sources[part.path] for part in candidate.parts]
    return {source.path: source.encode(candidate.text(source)) for source in edited}


def _write_all(workspace: Workspace, contents: Mapping[str, bytes]) -> None:
    """Writes what it can; the first error is raised when all files have had their turn."""
    failed: list[Exception] = []
    for path, content in contents.items():
        try:
            workspace.write(path, content)
        except Exception as error:  # noqa: BLE001  the other files still have to be written
            failed.append(error)
    if failed:
        raise failed[0]
