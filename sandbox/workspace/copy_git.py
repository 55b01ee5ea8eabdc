"""The copy's own ``.git``: what ``git log``, ``git describe`` and ``git commit`` inside the sandbox use.

It is made once, before anything runs in the copy, and the host never runs git with it
afterwards: a process inside can plant configuration and hooks there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..base.git import Git
from .source import Source
from .store import config_lines, exclude_rules


def make_copy_repository(
    source: Source,
    root: Path,
    *,
    commit: str | None,
    branch: str | None,
    alternates: Sequence[str],
    absent: Iterable[str],
) -> None:
    """Makes ``root/.git`` with HEAD at ``commit`` and the user's branches and tags, but no remotes.

    Args:
        alternates: where the user's objects are, as paths seen by processes inside.
        absent: tracked paths that are not on disk by design; marked so, not as deleted.
    """
    git_dir = root / ".git"
    for part in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"):
        (git_dir / part).mkdir(parents=True)
    head = f"ref: refs/heads/{branch}" if branch is not None else commit
    files = {
        "HEAD": f"{head}\n".encode(),
        "config": _config(source).encode(),
        "packed-refs": _packed_refs(source),
        "objects/info/alternates": b"".join(os.fsencode(path) + b"\n" for path in alternates),
        "info/exclude": exclude_rules(source),
    }
    for name, data in files.items():
        (git_dir / name).write_bytes(data)
    if source.shallow and (source.common_dir / "shallow").is_file():
        shutil.copyfile(source.common_dir / "shallow", git_dir / "shallow")
    if commit is None:
        return
    objects = ":".join(_quoted(path) for path in source.objects)
    git = Git(
        git_dir,
        root,
        extra_env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": objects, "GIT_LITERAL_PATHSPECS": "1"},
        user_config=False,
    )
    git.run_sync("read-tree", "HEAD")
    hidden = b"".join(os.fsencode(path) + b"\0" for path in absent)
    if hidden:
        git.run_sync("update-index", "--skip-worktree", "-z", "--stdin", input=hidden, check=False)
    # Exit code 1 only says that some files differ from HEAD, as they may.
    git.run_sync("update-index", "-q", "--refresh", check=False)


def _config(source: Source) -> str:
    lines = config_lines(source)
    lines += ["[core]", "\tbare = false", "\tlogAllRefUpdates = true"]
    lines += ["[user]", "\tname = Whimbrel", "\temail = whimbrel@localhost"]
    lines += ["[commit]", "\tgpgSign = false", "[tag]", "\tgpgSign = false", "[gc]", "\tauto = 0"]
    return "\n".join(lines) + "\n"


def _packed_refs(source: Source) -> bytes:
    listed = source.git.run_sync(
        "for-each-ref",
        "--format=%(objectname) %(refname) %(symref)",
        "refs/heads",
        "refs/tags",
        "refs/remotes",
        "refs/replace",
    )
    lines: list[bytes] = []
    for line in listed.stdout.splitlines():
        name, _, symbolic = line.rpartition(b" ")
        if not symbolic:
            lines.append(name + b"\n")
    return b"".join(sorted(lines, key=_ref_name))


def _ref_name(line: bytes) -> bytes:
    return line.partition(b" ")[2]


def _quoted(path: Path) -> str:
    text = str(path)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
