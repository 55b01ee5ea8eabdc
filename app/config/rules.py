"""Permission rules of the settings, as the agent takes them."""

from __future__ import annotations

from typing import Any

from ...sandbox.base.errors import ConfigError
from ..agent.permissions import Decision, Rule
from ..tools.base import PermissionClass
from .model import Settings

_KEYS = frozenset({"decision", "tool", "permission", "subject", "reason"})


def permission_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of all layers, in order.

    Raises:
        ConfigError: an unknown key or a wrong value; a rule is never half obeyed.
    """
    return tuple(_rule(entry, number) for number, entry in enumerate(settings.permissions.rules, start=1))


def _rule(entry: dict[str, Any], number: int) -> Rule:
    where = f"permissions.rules: rule {number}"
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise ConfigError(
            f"{where} has the unknown key {unknown[0]}", hint=f"known: {', '.join(sorted(_KEYS))}"
        )
    try:
        decision = Decision(entry.get("decision"))
        permission = PermissionClass(entry["permission"]) if "permission" in entry else None
    except ValueError as error:
        raise ConfigError(
            f"{where}: {error}",
            hint="decision is allow, ask or deny; permission is read, write, execute or network",
        ) from error
    texts = {name: entry[name] for name in ("tool", "subject", "reason") if name in entry}
    if not all(isinstance(text, str) for text in texts.values()):
        raise ConfigError(f"{where}: tool, subject and reason are texts")
    return Rule(decision, permission=permission, **texts)
