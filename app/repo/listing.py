"""Which files of a workspace count: tracked and untracked, not ignored, as git sees them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import RepositoryError
from ...sandbox.base.git import Git

__all__ = ["Listing", "list_files"]


@dataclass(frozen=True)
class Listing:
    """Regular files, repository-relative with forward slashes, sorted; ``note`` is one line or empty."""

    files: tuple[str, ...]
    note: str = ""


async def list_files(root: Path) -> Listing:
    """The files of ``root`` by git's rules (hidden files included, ``.git`` and ignored ones not).

    Symbolic links are left out, files of checked-out submodules are in. Where git cannot
    answer (no repository, or something inside broke it) every file is listed and the note says so.
    """
    git = Git(root / ".git" if (root / ".git").is_dir() else None, root, user_config=False)
    note = ""
    try:
        if not (root / ".git").exists():
            raise RepositoryError("there is no .git here")
        result = await git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = set(result.fields())
    except RepositoryError as error:
        note = f"ignore rules are not applied: {error.message}"
        names = set(_walk(root, ""))
    files: list[str] = []
    for name in names:
        path = root / name
        try:
            mode = path.lstat().st_mode
        except OSError:
            # Tracked but deleted, or below something that is no directory any more.
            continue
        if stat.S_ISREG(mode):
            files.append(name)
        elif stat.S_ISDIR(mode):
            files.extend(_walk(root, name.rstrip("/")))
    return Listing(tuple(sorted(set(files))), note)


def _walk(root: Path, below: str) -> list[str]:
    """Every regular file under ``root/below``, links not followed, ``.git`` in any letter case left out."""
    found: list[str] = []
    for directory, folders, names in os.walk(root / below if below else root):
        folders[:] = [name for name in folders if name.lower() != ".git"]
        relative = Path(directory).relative_to(root).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        for name in names:
            path = Path(directory, name)
            if name.lower() != ".git" and stat.S_ISREG(path.lstat().st_mode):
                found.append(prefix + name)
    return found
