"""Where knowledge of a project comes from: its suspicious files, those beside them, past commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from ...sandbox.base.errors import RepositoryError, ToolError
from ...sandbox.base.git import Git
from ...sandbox.workspace import Workspace
from ...sandbox.workspace.names import is_test_path
from .knowledge import Knowledge
from .localise import Localisation
from .source import ModuleSource, UnreadableSource

_MOST_FILES = 40
_MOST_BYTES = 400_000
_COMMITS = 40
_MOST_LINES = 1500
_GIT_S = 10.0


def gather(workspace: Workspace, localisation: Localisation) -> Knowledge:
    """What the project's code near the fault says. Bounded; the nearest is learnt first."""
    knowledge = Knowledge()
    for path in sorted(localisation.sources):
        knowledge.learn(localisation.sources[path])
    for path in _beside(workspace, localisation):
        try:
            knowledge.learn(ModuleSource(path, workspace.read(path, max_bytes=_MOST_BYTES)))
        except (UnreadableSource, ToolError):
            continue  # a file that cannot be read teaches nothing; nothing else depends on it
    knowledge.learn_history(_taken_out(workspace, sorted(localisation.sources)))
    return knowledge


def _beside(workspace: Workspace, localisation: Localisation) -> Iterator[str]:
    """Python files in the folders of the suspicious ones, without tests."""
    count = size = 0
    folders = sorted({PurePosixPath(path).parent.as_posix() for path in localisation.sources})
    for folder in folders:
        for file in sorted((workspace.root / folder).glob("*.py")):
            path = (PurePosixPath(folder) / file.name).as_posix()
            if path in localisation.sources or is_test_path(path) or file.is_symlink():
                continue
            size += file.stat().st_size
            count += 1
            if count > _MOST_FILES or size > _MOST_BYTES:
                return
            yield path


def _taken_out(workspace: Workspace, paths: list[str]) -> Iterator[str]:
    """Lines that recent commits removed from the suspicious files, newest first."""
    if not paths or workspace.base.commit is None:
        return
    arguments = ("log", f"-n{_COMMITS}", "-p", "-U0", "--no-color", "--no-merges", "--format=")
    try:
        result = Git(None, workspace.base.repository).run_sync(
            *arguments, workspace.base.commit, "--", *paths, check=False, timeout_s=_GIT_S
        )
    except RepositoryError:
        return  # no history, no lesson
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    removed = [line[1:] for line in lines if line.startswith("-") and not line.startswith("---")]
    yield from dict.fromkeys(removed[:_MOST_LINES])
