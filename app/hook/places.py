"""Where git looks for hooks: .git/hooks, core.hooksPath, husky's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.git import Git


@dataclass(frozen=True)
class HooksFolder:
    """The folder whose hooks run for this repository."""

    path: Path
    configured: bool = False
    """By core.hooksPath."""
    shared: bool = False
    """Outside the repository: other repositories may use it too."""
    tracked: bool = False
    """Part of the working tree, so that a change shows in ``git status``."""
    husky: bool = False
    """Husky's own folder, whose scripts are read by sh whether executable or not."""


def hooks_folder(top: Path, git_dir: Path) -> HooksFolder:
    """Finds it; the folder itself may not exist yet."""
    git = Git(git_dir, top)
    common = Path(git.run_sync("rev-parse", "--git-common-dir").text())
    common = (common if common.is_absolute() else top / common).resolve()
    configured = _configured(git)
    if configured is None:
        return HooksFolder(common / "hooks")
    folder = Path(configured).expanduser()
    folder = folder if folder.is_absolute() else top / folder
    husky = folder.name == "_" and folder.parent.name == ".husky"
    if husky:
        # What lies in `_` is made anew by every install of packages; it calls the file beside it.
        folder = folder.parent
    inside = folder.resolve().is_relative_to(top.resolve())
    ours = folder.resolve().is_relative_to(common)
    return HooksFolder(
        folder, configured=True, shared=not inside and not ours, tracked=inside and not ours, husky=husky
    )


def _configured(git: Git) -> str | None:
    """``core.hooksPath`` of any file; our own command line sets it too, to keep hooks from running."""
    # The system's file counts here: git reads it when it looks for hooks.
    reader = git.with_options(extra_env={"GIT_CONFIG_NOSYSTEM": "0"})
    listed = reader.run_sync(
        "config", "--show-scope", "-z", "--type=path", "--get-all", "core.hooksPath", check=False
    ).stdout.split(b"\0")
    values = [
        value.decode("utf-8", "surrogateescape")
        for scope, value in zip(listed[::2], listed[1::2], strict=False)
        if scope != b"command"
    ]
    return values[-1] if values and values[-1] else None
