"""The answers a person may give to a permission request, from the narrowest to the widest."""

from __future__ import annotations

from ..agent.events import PermissionAnswer, PermissionRequest


def answers_for(request: PermissionRequest) -> list[tuple[str, PermissionAnswer | None]]:
    """(text, answer) in the order shown; None: denied with a note that is still to be written."""
    offered: list[tuple[str, PermissionAnswer | None]] = [("Allow once", PermissionAnswer(allowed=True))]
    offered.append(("Allow exactly this in this run", PermissionAnswer(allowed=True, remember=True)))
    prefix = request.prefix
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
