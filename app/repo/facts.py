"""Git facts about a repository for people and reports, and change history as a hint for locating.

Read through the git wrapper, never through the repository's own configuration of hooks,
filters or drivers, and never with the caller's ``GIT_*`` variables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...sandbox.base.errors import RepositoryError
from ...sandbox.base.git import Git, redact_url_secrets

_IN_PROGRESS: Final = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
_FIELD: Final = "\x1f"
_RECORD: Final = "\x1e"
_BLAME_HEADER: Final = re.compile(rb"^([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?$")


@dataclass(frozen=True)
class Change:
    """One commit that touched a file."""

    commit: str
    when: int
    """Committer time, seconds since the epoch."""
    subject: str


@dataclass(frozen=True)
class LineOrigin:
    """Where a line last changed. ``commit`` is empty for a change that is not committed yet."""

    commit: str
    when: int
    """Committer time, seconds since the epoch; the file's own time when not committed."""


@dataclass(frozen=True)
class RepositoryFacts:
    """The state of a repository at one moment."""

    root: Path
    branch: str | None
    """None when the head is detached."""
    head: str | None
    """Full commit hash; None before the first commit."""
    subject: str
    committed_at: int | None
    modified: tuple[str, ...]
    """Tracked paths that differ from the head, staged or not."""
    untracked: tuple[str, ...]
    """Not ignored; whole directories end with ``/``."""
    in_progress: str | None
    """rebase, merge, cherry-pick, revert or bisect."""
    shallow: bool
    remotes: dict[str, str] = field(default_factory=dict[str, str])
    """Name -> URL without credentials."""

    @property
    def dirty(self) -> bool:
        return bool(self.modified or self.untracked)

    def one_line(self) -> str:
        """``main at 1a2b3c4 (2 modified, 1 untracked)`` for people."""
        place = self.branch or "detached head"
        at = f" at {self.head[:10]}" if self.head else ", no commit yet"
        counts = [f"{len(self.modified)} modified"] if self.modified else []
        counts += [f"{len(self.untracked)} untracked"] if self.untracked else []
        state = [f"{self.in_progress} in progress"] if self.in_progress else []
        details = ", ".join(counts + state)
        return f"{place}{at}" + (f" ({details})" if details else "")


async def repository_facts(path: Path) -> RepositoryFacts:
    """Facts of the repository that holds ``path``.

    Raises:
        RepositoryError: there is none, or it is bare.
    """
    # `.` would be searched upwards as well; the top level is where the work tree starts.
    places = await Git(None, path).run(
        "rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel", check=False
    )
    lines = places.text().splitlines()
    if places.exit_code != 0 or len(lines) != 2:
        raise RepositoryError(
            f"{path} is not inside the work tree of a git repository", hint="run git init, or give --repo"
        )
    git_dir, root = Path(lines[0]), Path(lines[1])
    git = Git(None, root)
    branch = await git.run("symbolic-ref", "--quiet", "--short", "HEAD", check=False)
    head = await git.run("log", "-1", f"--format=%H{_FIELD}%ct{_FIELD}%s", "HEAD", "--", check=False)
    commit, when, subject = head.text().split(_FIELD, 2) if head.exit_code == 0 else ("", "", "")
    modified, untracked = await _status(git)
    shallow = (await git.run("rev-parse", "--is-shallow-repository")).text()
    return RepositoryFacts(
        root=root,
        branch=branch.text() or None,
        head=commit or None,
        subject=subject,
        committed_at=int(when) if when else None,
        modified=modified,
        untracked=untracked,
        in_progress=next((name for file, name in _IN_PROGRESS if (git_dir / file).exists()), None),
        shallow=shallow == "true",
        remotes=await _remotes(git),
    )


async def recent_changes(
    repository: Path, paths: Sequence[str], *, limit: int = 5
) -> dict[str, tuple[Change, ...]]:
    """The latest commits that touched each path, newest first; empty for paths without history."""
    git = Git(None, repository)
    found: dict[str, tuple[Change, ...]] = {}
    for path in paths:
        result = await git.run(
            "log",
            f"-{limit}",
            f"--format=%H{_FIELD}%ct{_FIELD}%s{_RECORD}",
            "--",
            f":(top,literal){path}",
            check=False,
        )
        # Without a commit yet, git fails: there is no history to tell.
        text = result.text() if result.exit_code == 0 else ""
        records = (
            record.strip("\n").split(_FIELD, 2) for record in text.split(_RECORD) if record.strip("\n")
        )
        found[path] = tuple(Change(commit, int(when), subject) for commit, when, subject in records)
    return found


async def blame_recency(repository: Path, path: str) -> dict[int, LineOrigin]:
    """1-based line number -> the commit that last changed it, for the file as it is in the work tree.

    Renames are followed; an untracked file gives an empty dictionary.
    """
    result = await Git(None, repository).run("blame", "--line-porcelain", "--", path, check=False)
    if result.exit_code != 0:
        return {}
    origins: dict[int, LineOrigin] = {}
    commit, number = "", 0
    for line in result.stdout.split(b"\n"):
        header = _BLAME_HEADER.match(line)
        if header:
            commit, number = header[1].decode(), int(header[2])
        elif line.startswith(b"committer-time "):
            known = "" if set(commit) == {"0"} else commit
            origins[number] = LineOrigin(known, int(line.split()[1]))
    return origins


async def _status(git: Git) -> tuple[tuple[str, ...], tuple[str, ...]]:
    fields = (await git.run("status", "--porcelain=v2", "-z", "--untracked-files=normal")).fields()
    modified: list[str] = []
    untracked: list[str] = []
    position = 0
    while position < len(fields):
        entry = fields[position]
        position += 1
        match entry[:2]:
            case "1 ":
                modified.append(entry.split(" ", 8)[8])
            case "2 ":
                modified.append(entry.split(" ", 9)[9])
                # The original name of a rename is a field of its own.
                position += 1
            case "u ":
                modified.append(entry.split(" ", 10)[10])
            case "? ":
                untracked.append(entry[2:])
            case _:
                continue
    return tuple(modified), tuple(untracked)


async def _remotes(git: Git) -> dict[str, str]:
    result = await git.run("config", "--null", "--get-regexp", r"^remote\..*\.url$", check=False)
    remotes: dict[str, str] = {}
    for entry in result.fields():
        key, _, url = entry.partition("\n")
        name = key.removeprefix("remote.").removesuffix(".url")
        remotes.setdefault(name, redact_url_secrets(url))
    return remotes
