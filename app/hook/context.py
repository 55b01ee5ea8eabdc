"""What git told the hook, taken before the environment is scrubbed."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import RepositoryError
from ...sandbox.base.git import Git

_IN_PROGRESS = (("rebase-merge", "a rebase"), ("rebase-apply", "a rebase or git am"))


@dataclass(frozen=True)
class HookContext:
    """The repository and index that git is working with."""

    top: Path
    git_dir: Path
    index: Path
    objects: tuple[Path, ...] = ()
    """Object directories that git was told to use besides the repository's own."""
    told: bool = False
    """The working tree alone does not lead to ``git_dir``: it was given by GIT_DIR."""

    def git(self) -> Git:
        """For questions only."""
        return Git(self.git_dir, self.top)

    def in_progress(self) -> str:
        """The operation of many commits that is going on, or empty."""
        return next((what for name, what in _IN_PROGRESS if (self.git_dir / name).exists()), "")


def read_context(environ: MutableMapping[str, str], directory: Path) -> HookContext:
    """Reads git's variables (paths relative to ``directory``, as git gives them).

    Raises:
        RepositoryError: there is no repository with a working tree here.
    """

    def named(variable: str) -> Path | None:
        value = environ.get(variable)
        return Path(os.path.normpath(directory / value)) if value else None

    git_dir, top = named("GIT_DIR"), named("GIT_WORK_TREE")
    found, found_top = _discover(directory)
    if git_dir is None or (found is not None and _same(git_dir, found)):
        git_dir, told = found, False
    else:
        told = True
        top = top or directory
    if git_dir is None or not git_dir.is_dir():
        raise RepositoryError(f"{directory} is not in a git repository with files to work on")
    top = top or found_top
    if top is None or not top.is_dir():
        raise RepositoryError(f"the repository {git_dir} has no working tree here")
    objects = [named("GIT_OBJECT_DIRECTORY")]
    objects += [Path(part) for part in environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "").split(":") if part]
    return HookContext(
        top=top,
        git_dir=git_dir,
        index=named("GIT_INDEX_FILE") or git_dir / "index",
        objects=tuple(path for path in objects if path is not None and path.is_dir()),
        told=told or (top != found_top and found_top is not None),
    )


def scrub(environ: MutableMapping[str, str]) -> None:
    """Takes git's variables out, and gives a hook of a bare environment the home that paths need."""
    for name in [name for name in environ if name.startswith("GIT_")]:
        del environ[name]
    if not environ.get("HOME"):
        try:
            environ["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            environ["HOME"] = str(Path(tempfile.gettempdir()) / f"whimbrel-home-{os.geteuid()}")


def _discover(directory: Path) -> tuple[Path | None, Path | None]:
    git = Git(None, directory)
    found = git.run_sync("rev-parse", "--is-bare-repository", "--absolute-git-dir", check=False)
    if found.exit_code != 0:
        return None, None
    bare, _, place = found.text().partition("\n")
    if bare == "true":
        return Path(place), None
    top = git.run_sync("rev-parse", "--show-toplevel", check=False)
    return Path(place), Path(top.text()) if top.exit_code == 0 else None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
