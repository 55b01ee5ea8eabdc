"""The pattern that is offered when a person allows a command and all that begin like it."""

from __future__ import annotations

_WITH_SUBCOMMANDS = frozenset(
    ("apt", "brew", "cargo", "dnf", "docker", "git", "go", "just", "kubectl", "make", "npm", "npx", "pip",
     "pnpm", "poetry", "systemctl", "uv", "yarn")
)  # fmt: skip


def prefix_of(shown: str) -> str:
    """``git log*`` for ``git log -3``, ``ls*`` for ``ls -la``; empty where nothing narrow can be said."""
    words = shown.split()
    if not words or not all(char.isalnum() or char in "-_./" for char in words[0]):
        return ""
    if words[0] not in _WITH_SUBCOMMANDS:
        return f"{words[0]}*"
    if len(words) < 2 or words[1].startswith("-"):
        return ""
    return f"{words[0]} {words[1]}*"
