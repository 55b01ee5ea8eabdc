"""How recently lines changed, from the repository's history: what broke lately changed lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ....sandbox.base.errors import WhimbrelError
from ....sandbox.base.git import Git
from ...repo.facts import blame_recency, recent_changes
from ...tools.base import ToolContext

_SCRATCH = "repair-history"
_MOST_FILES = 12
_STEP = 0.5

Recency = Mapping[str, Mapping[int, float]]
"""path -> line -> 1 for the newest change of the file (or one not committed yet), halved per older one."""


async def remember(context: ToolContext, paths: Sequence[str]) -> None:
    """Reads the history of the first few paths into the run's memory, for ``remembered``."""
    base = context.workspace.base
    head = await Git(None, base.repository).run("rev-parse", "--verify", "--quiet", "HEAD", check=False)
    if base.commit and head.text() == base.commit:  # else the files there are not those of this run
        context.scratch[_SCRATCH] = await recency(base.repository, paths[:_MOST_FILES])


def remembered(context: ToolContext) -> Recency:
    """What ``remember`` found; empty when it was not asked."""
    found = context.scratch.get(_SCRATCH)
    return found if isinstance(found, dict) else {}


async def recency(repository: Path, paths: Sequence[str]) -> dict[str, dict[int, float]]:
    """Per line how recently it changed, counted in changes of its file.

    Lines of a file's oldest known change get nothing, so a project with one commit gives no hint.
    """
    found: dict[str, dict[int, float]] = {}
    try:
        changes = await recent_changes(repository, paths)
        for path in paths:
            known = [change.commit for change in changes.get(path, ())]
            if not known:
                continue
            lines = await blame_recency(repository, path)
            oldest = min((origin.when for origin in lines.values() if origin.commit), default=0)
            ages = {commit: number for number, commit in enumerate(known)}
            recent: dict[int, float] = {}
            for line, origin in lines.items():
                if not origin.commit:
                    recent[line] = 1.0
                elif origin.commit in ages and origin.when > oldest:
                    recent[line] = _STEP ** ages[origin.commit]
            if recent:
                found[path] = recent
    except WhimbrelError:
        # History is a hint: without it (a shallow or broken repository) the other evidence stands.
        return found
    return found
