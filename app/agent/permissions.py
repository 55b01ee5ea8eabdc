"""Who may do what: rules over tools and what they touch; deny before ask before allow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from ...sandbox.protocol import SandboxDescription
from ..tools.base import PermissionClass, Tool


class Decision(Enum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Rule:
    """Matches calls by tool name, permission class and subject (shell-style patterns)."""

    decision: Decision
    tool: str = "*"
    permission: PermissionClass | None = None
    subject: str = "*"
    reason: str = ""

    def matches(self, tool: str, permission: PermissionClass, subject: str) -> bool:
        if not fnmatchcase(tool, self.tool) or self.permission not in (None, permission):
            return False
        if self.subject == "*":
            return True
        if (
            self.decision is Decision.ALLOW
            and permission is PermissionClass.EXECUTE
            and _SHELL_SYNTAX.search(subject)
        ):
            # `git log*` must not let `git log; anything` through.
            return False
        return fnmatchcase(subject, self.subject)


_SHELL_SYNTAX = re.compile(r"[;&|<>$`(){}\n\r\\]")

_SUBJECT_ARGUMENTS = ("command", "path", "url", "query", "pattern", "tests")


@dataclass(frozen=True)
class Verdict:
    decision: Decision
    reason: str


class Permissions:
    """Decides on calls. Plain data in, a verdict out; asking is the loop's business."""

    def __init__(self, *, defaults: dict[PermissionClass, Verdict], rules: Sequence[Rule] = ()) -> None:
        self._defaults = defaults
        self._rules = tuple(rules)
        self._remembered: set[tuple[str, str]] = set()

    @classmethod
    def for_sandbox(
        cls, description: SandboxDescription, *, rules: Sequence[Rule] = (), chosen: bool = True
    ) -> Permissions:
        """Defaults for a sandbox.

        Everything stays inside an isolating sandbox and works on a copy, so reading,
        writing and running are allowed there. Without isolation, running is allowed
        only because the person chose that sandbox (``chosen``); otherwise it is asked.
        """
        allow = Decision.ALLOW
        inside = Verdict(allow, f"it stays inside the {description.kind} sandbox")
        if description.isolated:
            execute = inside
        elif chosen:
            execute = Verdict(allow, f"the {description.kind} sandbox was chosen explicitly")
        else:
            execute = Verdict(Decision.ASK, f"the {description.kind} sandbox does not isolate commands")
        return cls(
            defaults={
                PermissionClass.READ: Verdict(allow, "it reads the copy of the repository"),
                PermissionClass.WRITE: Verdict(allow, "it changes only the copy of the repository"),
                PermissionClass.EXECUTE: execute,
                PermissionClass.NETWORK: Verdict(Decision.ASK, "it reaches outside the sandbox"),
            },
            rules=rules,
        )

    def decide(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """The strictest matching rule, else the default of the tool's permission class."""
        subject = subject_of(arguments)
        matching = [rule for rule in self._rules if _applies(rule, tool, arguments, subject)]
        verdict = self._defaults[tool.permission]
        for decision in (Decision.DENY, Decision.ASK, Decision.ALLOW):
            rule = next((rule for rule in matching if rule.decision is decision), None)
            if rule is not None:
                verdict = Verdict(decision, rule.reason or f"a rule says {decision.value} for {tool.name}")
                break
        if verdict.decision is Decision.ASK and (tool.name, subject) in self._remembered:
            return Verdict(Decision.ALLOW, "it was allowed before in this run")
        return verdict

    def remember(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """The person allowed exactly this for the rest of the run."""
        self._remembered.add((tool.name, subject_of(arguments)))


def _applies(rule: Rule, tool: Tool, arguments: dict[str, Any], subject: str) -> bool:
    """A patch names several files: one is enough for a rule that forbids, all are needed to allow."""
    subjects = _patched(arguments) or [subject]
    quantifier = all if rule.decision is Decision.ALLOW else any
    return quantifier(rule.matches(tool.name, tool.permission, one) for one in subjects)


def _patched(arguments: dict[str, Any]) -> list[str]:
    patch = arguments.get("patch")
    if not isinstance(patch, str):
        return []
    from ..tools.patch_text import patch_paths

    return patch_paths(patch)


def subject_of(arguments: dict[str, Any]) -> str:
    """The path, command or address a call is about, as one string."""
    patched = _patched(arguments)
    if patched:
        return " ".join(patched)
    for name in _SUBJECT_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list | tuple) and value:
            return " ".join(str(item) for item in value)
    return ""
