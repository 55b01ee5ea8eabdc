"""Permission rules of the settings, as the agent takes them."""

from __future__ import annotations

from ..permissions.rules import Rule, rules_from_data
from .model import Settings


def permission_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of all layers, in order.

    Raises:
        ConfigError: an unknown key or a wrong value; a rule is never half obeyed.
    """
    return rules_from_data(settings.permissions.rules, source="settings")
