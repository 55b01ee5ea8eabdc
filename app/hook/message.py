"""The message of a commit that is being made: context for whoever repairs, never an order."""

from __future__ import annotations

from pathlib import Path

from ...sandbox.base.git import Git

_SCISSORS = " ------------------------ >8 ------------------------"
_MOST_CHARS = 20_000


def commit_message(path: Path, git: Git) -> str:
    """The text of the message file without comments and what ``commit --verbose`` puts below the scissors."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    configured = git.run_sync("config", "--get", "core.commentChar", check=False).text().strip()
    mark = configured if configured and configured != "auto" else "#"
    kept: list[str] = []
    for line in text.splitlines():
        if line == mark + _SCISSORS:
            break
        if not line.startswith(mark):
            kept.append(line.rstrip())
    return "\n".join(kept).strip()[:_MOST_CHARS]
