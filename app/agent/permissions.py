"""Who may do what: rules over tools and what they touch; deny before ask before allow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ...sandbox.protocol import SandboxDescription
from ..permissions.grants import Grants
from ..permissions.judge import CommandVerdict, Situation, Verdict, judge_command
from ..permissions.paths import Access, PathPolicy
from ..permissions.rules import Decision, Rule
from ..tools.base import PermissionClass, Tool, ToolContext

__all__ = ["Decision", "Permissions", "Rule", "Verdict", "subject_of"]

_SUBJECT_ARGUMENTS = ("command", "path", "url", "query", "pattern", "tests")
_PATH_ARGUMENTS = frozenset(
    [
        "path",
        "file",
        "paths",
        "files",
        "from",
        "to",
        "source",
        "destination",
        "target",
        "old_path",
        "new_path",
        "filename",
        "file_path",
        "directory",
        "folder",
        "cwd",
    ]
)
_REVISION_ARGUMENTS = frozenset({"revision", "rev", "ref", "object", "commit", "range", "base"})
_PATCH_ARGUMENTS = frozenset({"patch", "diff"})
_PATCH_MARKS = (
    *("+++ ", "--- ", "rename from ", "rename to ", "copy from ", "copy to "),
    *("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "),
)
_RANK = {Decision.ALLOW: 0, Decision.ASK: 1, Decision.DENY: 2}


class Permissions:
    """Decides on calls. Plain data in, a verdict out; asking is the loop's business."""

    def __init__(
        self,
        *,
        defaults: dict[PermissionClass, Verdict],
        rules: Sequence[Rule] = (),
        mode: str = "default",
        paths: PathPolicy | None = None,
        grants: Grants | None = None,
        isolated: bool = True,
    ) -> None:
        self._defaults = defaults
        self._rules = tuple(rules)
        self._mode = mode
        own = [each for rule in rules for each in rule.path_rules()]
        self.paths = paths if paths is not None else PathPolicy().with_rules(own)
        """Path rules; those of ``rules`` are in ``paths`` already when it is given."""
        self._grants = grants or Grants.for_this_run()
        self._isolated = isolated

    @classmethod
    def for_sandbox(
        cls,
        description: SandboxDescription,
        *,
        rules: Sequence[Rule] = (),
        chosen: bool = True,
        mode: str = "default",
        paths: PathPolicy | None = None,
        grants: Grants | None = None,
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
        defaults = {
            PermissionClass.READ: Verdict(allow, "it reads the copy of the repository"),
            PermissionClass.WRITE: Verdict(allow, "it changes only the copy of the repository"),
            PermissionClass.EXECUTE: execute,
            PermissionClass.NETWORK: Verdict(Decision.ASK, "it reaches outside the sandbox"),
        }
        if mode == "plan":
            for each in (PermissionClass.WRITE, PermissionClass.EXECUTE, PermissionClass.NETWORK):
                defaults[each] = Verdict(Decision.DENY, f"plan mode: nothing that {_DOES[each]}")
        elif mode == "read-only":
            defaults[PermissionClass.WRITE] = Verdict(Decision.DENY, "read-only mode: nothing is changed")
        elif mode == "bypass":
            defaults = {each: Verdict(allow, "nothing is asked in this mode") for each in defaults}
        return cls(
            defaults=defaults,
            rules=rules,
            mode=mode,
            paths=paths,
            grants=grants,
            isolated=description.isolated,
        )

    def decide(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """The strictest of what rules, paths and the mode say, else the default of the tool's class.

        Commands are taken apart; see ``app.permissions``.
        """
        command = _command_of(tool, arguments)
        if command is not None:
            return self.judge(command, tool.name).verdict
        subject = subject_of(arguments)
        verdict = self._defaults[tool.permission]
        fixed = self._mode == "plan" and tool.permission is not PermissionClass.READ
        matching = [
            rule
            for rule in self._rules
            if not rule.path
            and rule.covers_tool(tool.name, tool.permission.value)
            and _matches(rule, arguments, subject)
        ]
        for decision in (Decision.DENY, Decision.ASK, Decision.ALLOW):
            rule = next((rule for rule in matching if rule.decision is decision), None)
            if rule is not None and not (fixed and decision is not Decision.DENY):
                verdict = Verdict(decision, rule.why)
                break
        if not fixed:
            verdict = self._with_paths(tool, arguments, verdict)
        if verdict.decision is Decision.ASK:
            if self._grants.holds(tool.name, _key_of(tool, arguments)):
                return Verdict(Decision.ALLOW, "it was allowed before")
            if self._mode == "bypass":
                return Verdict(Decision.ALLOW, "nothing is asked in this mode")
        return verdict

    def bind(self, context: ToolContext) -> None:
        """Makes the tools of a run obey the same path rules."""
        if self.paths.root is None:
            self.paths = self.paths.at(context.workspace.root, (context.sandbox.spec.workdir,))
        context.paths = self.paths

    def remember(
        self, tool: Tool, arguments: dict[str, Any], prefix: str = "", *, store: bool = False
    ) -> None:
        """The person allowed exactly this, or every command that a prefix they chose covers.

        It holds in this repository: for this run, or with ``store`` for later ones too.
        """
        self._grants.add(tool.name, _key_of(tool, arguments), prefix, store=store)

    def judge(self, command: str, tool: str = "bash") -> CommandVerdict:
        """How a command line is understood and what is decided about each part of it."""
        execute = PermissionClass.EXECUTE
        rules = [rule for rule in self._rules if not rule.path and rule.covers_tool(tool, execute.value)]
        for each in self._grants.prefixes(tool):
            rules.append(Rule(Decision.ALLOW, tool=tool, command=each, reason="it was allowed before"))
        situation = Situation(self._defaults[execute], not self._isolated, self._mode)
        return judge_command(
            command, rules, self.paths, situation, lambda text: self._grants.holds(tool, text)
        )

    def parts(self, tool: Tool, arguments: dict[str, Any]) -> list[tuple[str, str, str]]:
        """(simple command, decision, reason) for each part of a command line; empty for other calls."""
        command = _command_of(tool, arguments)
        if command is None:
            return []
        steps = self.judge(command, tool.name).steps
        return [(each.command.shown, each.verdict.decision.value, each.verdict.reason) for each in steps]

    def _with_paths(self, tool: Tool, arguments: dict[str, Any], verdict: Verdict) -> Verdict:
        accesses: tuple[Access, ...] = ("read",)
        if tool.permission is PermissionClass.WRITE:
            accesses = ("read", "write")
        explicit = ""
        for path in paths_of(arguments):
            for access in accesses:
                outcome, reason = self.paths.decide(path, access)
                decision = Decision(outcome)
                if _RANK[decision] > _RANK[verdict.decision]:
                    verdict = Verdict(decision, f"{path}: {reason}")
            explicit = explicit or self.paths.allowed_by_rule(path, accesses[-1])
        if verdict.decision is Decision.ASK and explicit and verdict is self._defaults[tool.permission]:
            return Verdict(Decision.ALLOW, explicit)
        return verdict


_DOES = {
    PermissionClass.WRITE: "writes",
    PermissionClass.EXECUTE: "runs",
    PermissionClass.NETWORK: "reaches outside",
}


def _command_of(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    command: Any = arguments.get("command")
    if tool.permission is not PermissionClass.EXECUTE:
        return None
    if isinstance(command, list | tuple) and command:
        import shlex

        return shlex.join(str(item) for item in cast("list[Any]", command))
    return command if isinstance(command, str) and command.strip() else None


def _key_of(tool: Tool, arguments: dict[str, Any]) -> str:
    """What an answer is remembered for; without a subject it is the whole call."""
    subject = _command_of(tool, arguments) or subject_of(arguments)
    return subject or json.dumps(arguments, sort_keys=True, default=str)


def paths_of(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Every path a call names: path arguments at any depth, ``REV:PATH``, and the files of a patch."""
    for name, value in arguments.items():
        yield from _paths_in(name, value)


def _paths_in(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from paths_of(cast("Mapping[str, Any]", value))
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from _paths_in(name, item)
    elif isinstance(value, str) and value:
        if name in _PATH_ARGUMENTS and not value.startswith("artifact:"):
            yield value
            if ":" in value:
                yield value.split(":", 1)[1]
        elif name in _REVISION_ARGUMENTS and ":" in value:
            yield value.split(":", 1)[1]
        elif name in _PATCH_ARGUMENTS:
            yield from _patched(value)


def _patched(patch: str) -> Iterator[str]:
    for line in patch.splitlines():
        for mark in _PATCH_MARKS:
            if line.startswith(mark):
                path = line.removeprefix(mark).split("\t")[0].strip().strip('"')
                if path != "/dev/null":
                    yield path
                    if path.startswith(("a/", "b/")):
                        yield path[2:]


def _matches(rule: Rule, arguments: dict[str, Any], subject: str) -> bool:
    """A patch names several files: one is enough for a rule that forbids, all are needed to allow."""
    quantifier = all if rule.decision is Decision.ALLOW else any
    return quantifier(rule.matches_subject(one) for one in _files_of_patch(arguments) or [subject])


def _files_of_patch(arguments: Mapping[str, Any]) -> list[str]:
    patch: Any = arguments.get("patch")
    if not isinstance(patch, str):
        return []
    from ..tools.patch_text import patch_paths

    return patch_paths(patch)


def subject_of(arguments: dict[str, Any]) -> str:
    """The path, command or address a call is about, as one string."""
    patched = _files_of_patch(arguments)
    if patched:
        return " ".join(patched)
    for name in _SUBJECT_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list | tuple) and value:
            return " ".join(str(item) for item in cast("list[Any]", value))
    return ""
