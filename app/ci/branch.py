"""A branch that holds the verified patch: made beside the checkout, which is not touched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...sandbox.base.errors import RepositoryError, UsageError
from ...sandbox.base.git import Git
from ..reports.safe import one_line

PREFIX = "whimbrel/fix-"
_IDENTITY = {"NAME": "Whimbrel", "EMAIL": "whimbrel@localhost"}


def branch_name(number: str, result: Mapping[str, Any]) -> str:
    """A name for the patch of this pipeline's run; the same result gives the same name."""
    part = re.sub(r"[^0-9A-Za-z]", "", number) or re.sub(r"[^0-9A-Za-z]", "", str(result.get("run_id") or ""))
    return f"{PREFIX}{part}-{str(result.get('end_tree') or '')[:10]}"


def push_patch(repository: Path, result: Mapping[str, Any], branch: str, *, remote: str = "origin") -> str:
    """Commits the patch on top of the base commit and pushes it to a new branch; returns the commit.

    Raises:
        UsageError: there is no verified patch, or it was made on uncommitted changes.
        RepositoryError: git refused the commit or the push (rights, a branch of that name).
    """
    patch, base = str(result.get("patch") or ""), str(result.get("base_commit") or "")
    if result.get("status") != "fixed" or not patch or not base:
        raise UsageError("there is no verified patch to put on a branch")
    who = {
        f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _IDENTITY.items()
    }
    with TemporaryDirectory(prefix="whimbrel-branch-") as place:
        git = Git(None, repository, extra_env={"GIT_INDEX_FILE": str(Path(place) / "index"), **who})
        git.run_sync("read-tree", base)
        applied = git.run_sync(
            "apply", "--cached", "--whitespace=nowarn", "-",
            input=patch.encode("utf-8", "surrogateescape"), check=False,
        )  # fmt: skip
        if applied.exit_code != 0:
            raise UsageError("the patch does not apply to the commit: the checkout had uncommitted changes")
        tree = git.run_sync("write-tree").text()
        message = f"{_subject(result)}\n\nFound and verified by Whimbrel; a person should look at it.\n"
        commit = git.run_sync("commit-tree", tree, "-p", base, "-F", "-", input=message.encode()).text()
        # A new branch or nothing: an existing one is never overwritten.
        lease = f"--force-with-lease=refs/heads/{branch}:"
        pushed = git.run_sync(
            "push", "--quiet", "--no-verify", lease, remote, f"{commit}:refs/heads/{branch}",
            check=False, timeout_s=120,
        )  # fmt: skip
        if pushed.exit_code != 0:
            raise RepositoryError(
                f"the branch {branch} could not be pushed: {' '.join(pushed.stderr.split())[:300]}",
                hint="the job needs the right to write contents",
            )
    return commit


def _subject(result: Mapping[str, Any]) -> str:
    files = [str(each.get("path")) for each in result.get("files") or []]
    name = files[0] if len(files) == 1 else f"{len(files)} files"
    # Text of a test or an issue stays out: hosting services act on words in messages.
    return one_line(f"Repair {name}", 72)
