"""One run of the hook: what would enter history is tested; a failure becomes a proposed patch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import (
    ConfigError,
    NothingToFix,
    RepositoryError,
    UsageError,
    WhimbrelError,
)
from ..config import Settings
from ..config.rules import permission_rules
from ..fix.check import Check
from ..fix.main import run_fix_issue
from ..fix.options import FixOptions
from ..fix.rundir import RunDirectory, new_run_id
from .changes import Change, pushed_changes, staged_change
from .context import HookContext, read_context, scrub
from .door import HookDoor, failure_text, say
from .message import commit_message
from .remembered import key_of, passed_lately, remember_passed

STOP = 4
"""Exit code when tests fail; git only asks whether it is zero."""
_SIGNALS = (130, 143)
_LEAST_S = 1.0


@dataclass(frozen=True)
class HookOptions:
    """What the hook was told to do."""

    hook: str
    arguments: tuple[str, ...] = ()
    """As git gives them: the message file; the remote's name and address."""
    model: str = "embedded"
    effort: str = "auto"
    sandbox: str = "auto"
    image: str | None = None
    network: bool = False
    python: str | None = None
    trust: bool = False
    allow_build: bool = True
    max_time_s: float = 60.0
    spent_s: float = 0.0
    everything: bool = False
    warn_only: bool = False
    strict: bool = False
    """What cannot be tested does not pass."""
    repair: bool = True
    """Look for a patch when tests fail."""
    apply: bool = False
    verbose: bool = False
    seed: int = 0
    settings: Settings = field(default_factory=Settings, repr=False)


def run_hook(options: HookOptions, environ: MutableMapping[str, str] | None = None) -> int:
    """Runs the hook in the current directory; returns the exit code.

    ``environ`` is scrubbed of git's variables once they have been read.
    """
    environ = os.environ if environ is None else environ
    if environ.get("WHIMBREL_SKIP", "0") not in ("", "0"):
        return 0
    began = time.monotonic() - options.spent_s
    try:
        context = read_context(environ, Path.cwd())
        pre_commit = {name: value for name, value in environ.items() if name.startswith("PRE_COMMIT_")}
        scrub(environ)
        going_on = context.in_progress()
        if going_on and options.hook != "pre-push":
            say(f"whimbrel: {going_on} is in progress, so its commits are not tested one by one")
            return 0
        scratch = RunDirectory.create(new_run_id())
        try:
            return _run(options, context, scratch.root, pre_commit, began)
        finally:
            scratch.remove()
    except (UsageError, ConfigError) as error:
        say(f"whimbrel: {error.one_line()}")
        return error.exit_code
    except WhimbrelError as error:
        return _unable(options, error.one_line(), error.exit_code)


def _run(
    options: HookOptions, context: HookContext, scratch: Path, pre_commit: Mapping[str, str], began: float
) -> int:
    issue = ""
    if options.hook == "pre-push":
        remote = (options.arguments[0] if options.arguments else "") or pre_commit.get(
            "PRE_COMMIT_REMOTE_NAME", ""
        )
        changes = pushed_changes(context, _ref_lines(pre_commit), pre_commit, remote)
    else:
        changes = [staged_change(context, scratch)]
        if options.hook == "commit-msg" and options.arguments:
            message = Path(options.arguments[0])
            issue = commit_message(message if message.is_absolute() else context.top / message, context.git())
    for change in changes:
        if not change.paths and not options.everything:
            continue
        code = _test(options, context, change, issue, began)
        if code != 0:
            return code
    return 0


def _test(options: HookOptions, context: HookContext, change: Change, issue: str, began: float) -> int:
    everything = options.everything or change.everything
    key = key_of(str(context.top), change.start.tree, str(everything), options.python or "", *change.paths)
    if passed_lately(key):
        return 0
    left = options.max_time_s - (time.monotonic() - began)
    if left < _LEAST_S:
        return _unable(options, f"no time was left to test {change.name} (raise --max-time)", 6)
    door = HookDoor(verbose=options.verbose)
    fix = FixOptions(
        repository=context.top,
        start=change.start,
        check=Check(change.paths, everything, only=not options.repair),
        issue=issue or None,
        issue_is_text=True,
        python=options.python,
        trust=options.trust,
        model=options.model,
        effort=options.effort,
        sandbox=options.sandbox,
        image=options.image,
        network=options.network,
        max_time_s=left,
        seed=options.seed,
        apply=options.apply,
        allow_build=options.allow_build,
        keep_uneventful=False,
        max_steps=options.settings.limits.steps,
        max_tokens=options.settings.limits.tokens,
        max_cost_usd=options.settings.limits.cost_usd,
        max_candidates=options.settings.limits.candidates,
        rules=permission_rules(options.settings),
        settings=options.settings,
    )
    run_fix_issue(fix, door)
    return _conclude(options, change, key, door.result)


def _conclude(options: HookOptions, change: Change, key: str, result: Mapping[str, Any]) -> int:
    status, code = str(result.get("status")), int(result.get("exit_code") or 0)
    failing = (result.get("check") or {}).get("failing")
    if code in _SIGNALS:
        return code
    if code == NothingToFix.exit_code:
        if not failing:
            remember_passed(key)
        say(f"whimbrel: {change.name}: {result.get('message')}")
        return 0
    if failing:
        say(failure_text(result, change.name, stops=not options.warn_only))
        return 0 if options.warn_only else STOP
    said = f"{result.get('message')}" + (f" ({result['hint']})" if result.get("hint") else "")
    if status in (UsageError.status, ConfigError.status):
        say(f"whimbrel: {said}")
        return code
    return _unable(options, said, code or RepositoryError.exit_code)


def _unable(options: HookOptions, said: str, code: int) -> int:
    """Nothing could be told about the change: that is said, and it passes unless ``strict``."""
    if options.strict and not options.warn_only:
        say(f"whimbrel: not tested, and --strict lets nothing pass untested: {said}")
        return code
    say(f"whimbrel: not tested, and let pass: {said}")
    return 0


def _ref_lines(pre_commit: Mapping[str, str]) -> list[str]:
    """What git writes to a pre-push hook; nothing is waited for where nobody writes."""
    stream = sys.stdin
    if stream is None or "PRE_COMMIT_TO_REF" in pre_commit:  # pyright: ignore[reportUnnecessaryComparison]
        return []
    if stream.isatty():
        return []
    data = stream.buffer.read(1 << 20)
    return os.fsdecode(data).splitlines()
