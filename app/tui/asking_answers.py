"""The answers a person may give to a permission request, from the narrowest to the widest."""

from __future__ import annotations

from ..agent.events import PermissionAnswer, PermissionRequest


def answers_for(request: PermissionRequest) -> list[tuple[str, PermissionAnswer | None]]:
    """(text, answer) in the order shown; None: denied with a note that is still to be written."""
    offered: list[tuple[str, PermissionAnswer | None]] = [("Allow once", PermissionAnswer(allowed=True))]
    offered.append(("Allow exactly this in this run", PermissionAnswer(allowed=True, remember=True)))
    prefix = prefix_of(request)
    if prefix:
        offered.append(
            (f"Allow {prefix} in this run", PermissionAnswer(allowed=True, remember=True, prefix=prefix))
        )
    offered.append(
        ("Always allow exactly this in this repository",
         PermissionAnswer(allowed=True, remember=True, store=True))
    )  # fmt: skip
    if prefix:
        offered.append(
            (f"Always allow {prefix} in this repository",
             PermissionAnswer(allowed=True, remember=True, prefix=prefix, store=True))
        )  # fmt: skip
    offered += [("Deny", PermissionAnswer(allowed=False)), ("Deny, and say why", None)]
    return offered


_WITH_SUBCOMMANDS = frozenset(
    [
        "git",
        "npm",
        "npx",
        "yarn",
        "pnpm",
        "cargo",
        "go",
        "docker",
        "kubectl",
        "pip",
        "uv",
        "poetry",
        "make",
        "just",
        "apt",
        "dnf",
        "brew",
        "systemctl",
    ]
)


def prefix_of(request: PermissionRequest) -> str:
    """A pattern such as ``git log*`` for a plain command of one part; empty where one would be too much."""
    asked = [part for part in request.parts if part.decision == "ask"]
    if len(asked) != 1:
        return ""
    words = asked[0].shown.split()
    if not words or not all(char.isalnum() or char in "-_./" for char in words[0]):
        return ""
    taken = words[:1]
    if words[0] in _WITH_SUBCOMMANDS:
        if len(words) < 2 or words[1].startswith("-"):
            return ""
        taken = words[:2]
    return " ".join(taken) + "*"
