"""One line of predictions for SWE-bench: the patch against the recorded commit, checked against it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...sandbox.base.errors import RepositoryError, UsageError
from ...sandbox.base.git import Git
from ...sandbox.workspace import find_repository
from ..version import __version__


def prediction_line(result: Mapping[str, Any], instance_id: str = "") -> bytes:
    """``instance_id``, ``model_name_or_path`` (model, harness and version), ``model_patch``.

    Without a verified patch the text is empty, which counts as unresolved.

    Raises:
        RepositoryError: the repository or its commit is not there for the check.
        UsageError: the patch does not apply to a clean checkout of the commit (the run began with
            uncommitted changes), or no instance was named and the commit is unknown.
    """
    commit = str(result.get("base_commit") or "")
    instance = instance_id or (f"{Path(str(result.get('repository'))).name}-{commit[:12]}" if commit else "")
    if not instance:
        raise UsageError("no commit is recorded that could name the instance", hint="give --instance-id")
    patch = str(result.get("patch") or "") if result.get("status") == "fixed" else ""
    if patch:
        patch = patch if patch.endswith("\n") else patch + "\n"
        _check(Path(str(result.get("repository"))), commit, patch)
    model = re.sub(r"\s+", "-", str(result.get("model") or "unknown"))
    line = {
        "instance_id": instance,
        "model_name_or_path": f"{model}+whimbrel-{result.get('version') or __version__}",
        "model_patch": patch,
    }
    return (json.dumps(line, ensure_ascii=True) + "\n").encode("ascii")


def _check(repository: Path, commit: str, patch: str) -> None:
    """``git apply --check`` on a clean checkout: a private index that holds the commit's tree."""
    import asyncio

    top = asyncio.run(find_repository(repository)) if repository.is_dir() else None
    if top is None or not commit:
        raise RepositoryError(f"{repository} is not there, so the patch cannot be checked against its commit")
    with TemporaryDirectory(prefix="whimbrel-check-") as place:
        git = Git(None, top, extra_env={"GIT_INDEX_FILE": str(Path(place) / "index")})
        read = git.run_sync("read-tree", commit, check=False)
        if read.exit_code != 0:
            raise RepositoryError(f"the commit {commit[:12]} is not in {top}: {read.stderr.strip()[:200]}")
        command = ("apply", "--cached", "--check", "--whitespace=nowarn", "-")
        applied = git.run_sync(*command, input=patch.encode("utf-8", "surrogateescape"), check=False)
        if applied.exit_code != 0:
            dirty = "the run began with uncommitted changes" if applied.stderr else "it does not fit"
            raise UsageError(
                f"the patch does not apply to a clean checkout of {commit[:12]}: {dirty}",
                hint="commit them and run again",
            )
