"""Rules as a person writes them, and as data from configuration.

Written: ``KIND`` or ``KIND(PATTERN)``. KIND is ``read``, ``write``, ``bash``, ``network``,
``execute`` or the name of a tool (``*`` allowed). PATTERN is a path for read and write, a command
for bash, anything a tool is about otherwise. A command pattern is matched word by word against
every simple command: ``git log`` is exactly that, ``git log*`` also takes arguments, ``*`` inside
a word is any text. An allow rule vouches only for what it can see: not for redirections into
files, unknown arguments, or options that write or run something unless the pattern names them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from ...sandbox.base.errors import ConfigError, UsageError
from .paths import Access, Outcome, PathRule
from .programs import risky_options
from .shell import Command
from .words import Word


class Decision(Enum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


CLASSES = ("read", "write", "execute", "network")
KNOWN_TOOLS = (
    *("run_tests", "locate", "read", "search", "edit", "bash", "repair", "list", "glob", "symbols"),
    *("multi_edit", "apply_patch", "write", "git", "todo", "ask", "view_image", "agent", "web_fetch"),
    *("skill", "mcp"),
)


@dataclass(frozen=True)
class Rule:
    """One rule. Empty fields do not restrict.

    ``subject`` is a shell-style pattern over what the call is about; for a command it is a
    command pattern. ``permission`` is a class (read, write, execute, network) as text, or an
    enumeration member with such a value.
    """

    decision: Decision
    tool: str = "*"
    permission: Any = None
    subject: str = "*"
    reason: str = ""
    command: str = ""
    path: str = ""

    @property
    def why(self) -> str:
        return self.reason or f"a rule says {self.decision.value} for {self}"

    @property
    def command_pattern(self) -> str:
        """The pattern for commands, or empty when the rule holds for whole tools."""
        return self.command or ("" if self.subject == "*" else self.subject)

    @property
    def class_name(self) -> str:
        return str(getattr(self.permission, "value", self.permission) or "")

    def covers_tool(self, tool: str, permission: str) -> bool:
        return fnmatchcase(tool, self.tool) and self.class_name in ("", permission)

    def matches_subject(self, subject: str) -> bool:
        """For calls that are no commands."""
        return not self.command and (self.subject == "*" or fnmatchcase(subject, self.subject))

    def path_rules(self) -> tuple[PathRule, ...]:
        """What it means for paths, when it is about paths."""
        if not self.path:
            return ()
        outcome: Outcome = self.decision.value
        accesses: list[Access] = ["write"] if self.class_name == "write" else ["read"]
        if not self.class_name:
            accesses = ["read", "write"]
        return tuple(PathRule(outcome, access, self.path, self.reason) for access in accesses)

    def __str__(self) -> str:
        kind = self.class_name or self.tool
        inside = self.path or self.command_pattern
        return f"{kind}({inside})" if inside else kind


Match = Literal["yes", "maybe", "no"]


def may_cover(pattern: str, command: Command) -> Match:
    """Whether a deny or ask pattern covers a simple command.

    The program is also known by its base name, options may stand between the words, letter case
    does not matter; ``maybe`` when that depends on words that are only known at run time.
    """
    wanted, rest = pattern_words(pattern)
    if not wanted:
        return "yes" if rest else "no"
    return _may_match(wanted, rest, command.words)


def covers_command(pattern: str, command: Command) -> tuple[bool, str]:
    """Whether an allow pattern covers one simple command, and if not quite: why."""
    wanted, rest = pattern_words(pattern)
    words = command.words
    if not wanted:
        return rest, ""
    if len(words) < len(wanted) or (len(words) > len(wanted) and not rest):
        return False, ""
    for piece, word in zip(wanted, words, strict=False):
        if word.literal is None or not fnmatchcase(word.literal, piece):
            return False, ""
    reasons = list(command.doubts)
    reasons += [f"{word.shown} is only known when it runs" for word in words if word.dynamic]
    named = set(wanted)
    reasons += [
        f"{option} can write or run something"
        for option in risky_options(words[0].literal or "", words)
        if option not in named and option.split("=", 1)[0] not in named
    ]
    reasons += [
        f"it writes to {each.target.shown}"
        for each in command.redirects
        if each.writes and not harmless(each.target)
    ]
    return not reasons, "; ".join(dict.fromkeys(reasons))


def harmless(target: Word) -> bool:
    """Redirection targets that keep nothing."""
    return target.literal in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


@lru_cache(maxsize=512)
def pattern_words(pattern: str) -> tuple[tuple[str, ...], bool]:
    """The words of a command pattern and whether more arguments may follow.

    Raises:
        ValueError: its quotes are not closed.
    """
    words = shlex.split(pattern)
    rest = False
    if words and words[-1] == "*":
        words, rest = words[:-1], True
    elif words and words[-1].endswith("*") and not words[-1].endswith("\\*"):
        words[-1], rest = words[-1][:-1].removesuffix(":"), True
    return tuple(words), rest


def _may_match(wanted: Sequence[str], rest: bool, words: Sequence[Word]) -> Match:
    if not words:
        return "no"
    certain = True
    for at, piece in enumerate(wanted):
        prefix = rest and at == len(wanted) - 1
        if at == 0:
            candidates, words = words[:1], words[1:]
        else:
            candidates = words
        found = next((i for i, word in enumerate(candidates) if _fits(piece, word, prefix, at == 0)), None)
        if found is None:
            unknown = any(word.literal is None for word in candidates)
            if not unknown:
                return "no"
            certain = False
        elif at:
            words = words[found + 1 :]
    return "yes" if certain else "maybe"


def _fits(piece: str, word: Word, prefix: bool, program: bool) -> bool:
    text = word.literal
    if text is None:
        return False
    return _like(piece, text, prefix) or (program and _like(piece, text.rsplit("/", 1)[-1], prefix))


def _like(piece: str, text: str, prefix: bool) -> bool:
    return fnmatchcase(text.casefold(), piece.casefold() + ("*" if prefix else ""))


_WRITTEN = re.compile(r"^([A-Za-z_*][\w*.-]*)(?:\((.*)\))?$", re.DOTALL)


def parse_rule(decision: str, text: str) -> Rule:
    """A rule as written after ``--allow``, ``--ask`` or ``--deny``.

    Raises:
        UsageError: it is none; the message shows the form.
    """
    kinds = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}
    match = _WRITTEN.match(text.strip())
    form = "write KIND or KIND(PATTERN), for example bash(git log*), read(.env), write(docs/**), network"
    if match is None or match[2] == "":
        raise UsageError(f"--{decision} {text!r} is no permission rule", hint=form)
    kind, inside = match[1], match[2]
    known = {*CLASSES, *KNOWN_TOOLS}
    if kind not in known and "*" not in kind and "__" not in kind:
        near = get_close_matches(kind, sorted(known), 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"--{decision} {text!r}: there is no tool or class {kind!r}{meant}", hint=form)
    try:
        return _made(kinds[decision], kind, inside)
    except ValueError as error:
        raise UsageError(f"--{decision} {text!r}: {error}", hint=form) from error


def _made(decision: Decision, kind: str, inside: str | None) -> Rule:
    if kind in ("read", "write"):
        if inside is None:
            return Rule(decision, permission=kind)
        return Rule(decision, permission=kind, path=_path(inside))
    if kind in ("bash", "execute") and inside is not None:
        _check_command(inside)
        return Rule(decision, tool="bash", command=inside)
    if kind in CLASSES:
        return Rule(decision, permission=kind, subject=inside or "*")
    return Rule(decision, tool=kind, subject=inside or "*")


def _path(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("the path pattern is empty")
    if text.split("/")[0] == "..":
        raise ValueError("a path pattern starts at the repository's top, at / or at ~/")
    return text.strip()


def _check_command(text: str) -> None:
    from .shell import parse

    if not pattern_words(text)[0] and text.strip() != "*":
        raise ValueError("the command pattern is empty")
    parsed = parse(text)
    if len(parsed.commands) > 1 or parsed.problems or any(each.redirects for each in parsed.commands):
        raise ValueError("a pattern is about one simple command: no ; | & > $() in it")


_KEYS = frozenset({"decision", "tool", "permission", "command", "path", "reason", "subject"})


def rules_from_data(
    entries: Iterable[Mapping[str, Any]], *, source: str = "configuration"
) -> tuple[Rule, ...]:
    """Rules from plain data: ``{decision, tool, permission, command, path, reason}`` each.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names the entry.
    """
    return tuple(_from_entry(entry, f"{source}: permission rule {at}") for at, entry in enumerate(entries, 1))


def _from_entry(entry: Mapping[str, Any], where: str) -> Rule:
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise ConfigError(
            f"{where} has the unknown key {unknown[0]}", hint=f"known: {', '.join(sorted(_KEYS))}"
        )
    values = {key: str(value) for key, value in entry.items() if value is not None}
    try:
        decision = Decision(values.get("decision", ""))
    except ValueError:
        raise ConfigError(f"{where}: decision must be allow, ask or deny") from None
    permission = values.get("permission") or None
    if permission is not None and permission not in CLASSES:
        raise ConfigError(f"{where}: permission must be one of {', '.join(CLASSES)}")
    try:
        if values.get("command"):
            _check_command(values["command"])
        path = _path(values["path"]) if "path" in values else ""
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    command = values.get("command", "")
    return Rule(
        decision,
        tool=values.get("tool") or ("bash" if command else "*"),
        permission=permission,
        subject=values.get("subject") or "*",
        reason=values.get("reason", ""),
        command=command,
        path=path,
    )
