"""From a parsed command and the rules to one decision with its reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .mentions import folders_of, git_shows_history, judge_paths, reads_unnamed
from .paths import PathPolicy
from .programs import only_reads
from .rules import Decision, Match, Rule, covers_command, harmless, may_cover
from .shell import Command
from .words import plain
from .wrappers import commands_of

_RANK = {Decision.ALLOW: 0, Decision.ASK: 1, Decision.DENY: 2}


@dataclass(frozen=True)
class Verdict:
    decision: Decision
    reason: str


@dataclass(frozen=True)
class Step:
    """One simple command of a line, with what was decided about it."""

    command: Command
    verdict: Verdict


@dataclass(frozen=True)
class CommandVerdict:
    """The decision about a whole command line: that of its strictest part."""

    verdict: Verdict
    steps: tuple[Step, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Situation:
    """What holds when no rule speaks."""

    default: Verdict
    doubts_matter: bool
    """Whether unclear and dangerous commands are asked about although running is allowed (no isolation)."""
    mode: str = "default"


def judge_command(
    text: str,
    rules: Sequence[Rule],
    policy: PathPolicy,
    situation: Situation,
    remembered: Callable[[str], bool] = lambda _: False,
) -> CommandVerdict:
    """Decides on a command line.

    Deny beats ask beats allow for each simple command; the whole is as strict as its strictest
    part. ``remembered`` says whether a person agreed to exactly this text before.
    """
    if situation.mode == "plan":
        return CommandVerdict(situation.default, (), ())
    parsed = commands_of(text)
    about_commands = [rule for rule in rules if rule.command_pattern]
    general = [rule for rule in rules if not rule.command_pattern]
    folders = folders_of(parsed.commands)
    steps: list[Step] = []
    for command in parsed.commands:
        verdict = _one(command, about_commands, general, situation)
        found = judge_paths(command, policy, folders)
        if found is not None:
            outcome, reason = found
            verdict = _stricter(verdict, Verdict(Decision(outcome), reason))
        elif unnamed := reads_unnamed(command, policy):
            why = f"it would come across {unnamed}, which may not be read: use --exclude={unnamed}"
            verdict = _stricter(verdict, Verdict(Decision.DENY, why))
        elif policy.in_history and git_shows_history(command, policy):
            secret = policy.in_history[0]
            why = f"it may print {secret}, which may not be read, out of git's history; name paths after --"
            verdict = _stricter(verdict, Verdict(Decision.DENY, why))
        steps.append(Step(command, verdict))
    whole = Verdict(Decision.ALLOW, "it does nothing")
    if steps:
        worst = max((step.verdict for step in steps), key=lambda verdict: _RANK[verdict.decision])
        whole = worst
    if parsed.problems:
        whole = _stricter(whole, _unclear(parsed.problems, about_commands, general, situation, text))
    if whole.decision is Decision.ASK and remembered(text):
        whole = Verdict(Decision.ALLOW, "it was allowed before")
    if whole.decision is Decision.ASK and situation.mode == "bypass":
        whole = Verdict(Decision.ALLOW, "nothing is asked in this mode")
    return CommandVerdict(whole, tuple(steps), tuple(parsed.problems))


def _one(command: Command, rules: Sequence[Rule], general: Sequence[Rule], situation: Situation) -> Verdict:
    asked: Verdict | None = None
    for decision in (Decision.DENY, Decision.ASK):
        for rule in (*rules, *general):
            if rule.decision is not decision:
                continue
            match = _may_cover(rule, command) if rule.command_pattern else "yes"
            if match == "yes":
                return Verdict(decision, rule.why)
            if match == "maybe" and asked is None:
                asked = Verdict(Decision.ASK, f"it may turn out to be what {rule} is about")
    if asked is not None:
        return asked
    doubts: list[str] = []
    for rule in rules:
        if rule.decision is not Decision.ALLOW:
            continue
        covered, why = covers_command(rule.command_pattern, command)
        if covered:
            return Verdict(Decision.ALLOW, rule.why)
        if why:
            doubts.append(f"{rule} does not vouch for it: {why}")
    for rule in general:
        if rule.decision is Decision.ALLOW:
            return Verdict(Decision.ALLOW, rule.why)
    strict = any(rule.decision is not Decision.ALLOW for rule in rules)
    return _by_default(command, situation, doubts, strict)


def _may_cover(rule: Rule, command: Command) -> Match:
    # `sudo git` is a git and a sudo.
    outer = [replace(command, words=(plain(name), *command.words)) for name in command.via]
    found = [may_cover(rule.command_pattern, each) for each in (command, *outer)]
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _by_default(command: Command, situation: Situation, doubts: Sequence[str], strict: bool) -> Verdict:
    verdict = situation.default
    writes = any(each.writes and not harmless(each.target) for each in command.redirects)
    reads = only_reads(command.words) and not writes and not command.doubts
    sets = not command.words and not command.redirects and not command.doubts
    if situation.mode == "read-only":
        if reads or sets:
            return Verdict(Decision.ALLOW, "it only reads")
        return Verdict(Decision.DENY, f"read-only mode: {command.shown[:80]!r} may change something")
    if situation.mode == "accept-edits":
        if reads or sets:
            return Verdict(Decision.ALLOW, "it only reads")
        verdict = _stricter(verdict, Verdict(Decision.ASK, "accept-edits mode asks before commands"))
    worth = command.doubts if strict else command.dangers if situation.doubts_matter else ()
    if verdict.decision is Decision.ALLOW and worth:
        return Verdict(Decision.ASK, worth[0])
    if verdict.decision is Decision.ASK:
        if (reads or sets) and situation.mode != "default":
            return Verdict(Decision.ALLOW, "it only reads")
        if doubts:
            return Verdict(Decision.ASK, doubts[0])
    return verdict


def _unclear(
    problems: Sequence[str], rules: Sequence[Rule], general: Sequence[Rule], situation: Situation, text: str
) -> Verdict:
    """What to do with a command line that was not understood."""
    from .shell import MAX_CHARACTERS

    allowing = [*general, *(rule for rule in rules if rule.command_pattern.strip() == "*")]
    strict = any(rule.decision is not Decision.ALLOW for rule in (*rules, *general))
    if not strict and any(rule.decision is Decision.ALLOW for rule in allowing):
        return Verdict(Decision.ALLOW, "a rule allows any command")
    too_long = len(text) > MAX_CHARACTERS
    if strict or situation.doubts_matter or too_long or situation.mode in ("read-only", "accept-edits"):
        hint = "; write a file with the edit tool instead" if too_long else ""
        return Verdict(Decision.ASK, f"{problems[0]}{hint}")
    return situation.default


def _stricter(one: Verdict, other: Verdict) -> Verdict:
    return other if _RANK[other.decision] > _RANK[one.decision] else one
