"""Questions about the user's own tree, answered without touching it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from .source import open_source
from .workspace import Workspace


async def find_repository(directory: Path, git_dir: Path | None = None) -> Path:
    """Top of the working tree that ``directory`` belongs to (or ``git_dir``, where given).

    Raises:
        RepositoryError: bare, unreadable, or not a repository.
    """
    return (await asyncio.to_thread(open_source, directory, git_dir)).top


async def tree_of(repository: Path, scratch: Path) -> str:
    """Tree hash of the working tree as it is now, uncommitted and new files included.

    Made the same way as a run's base tree (through a copy below ``scratch``), so that the two compare.
    """
    with TemporaryDirectory(dir=scratch, prefix="tree-") as place:
        workspace = await Workspace.create(repository, Path(place))
        try:
            return workspace.base.tree
        finally:
            await workspace.destroy()
