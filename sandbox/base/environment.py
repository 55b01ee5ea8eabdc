"""The environment commands get: an allow-list of harmless variables, and non-interactive habits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

_PASSED = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SYSTEMROOT")
_FALLBACK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_NON_INTERACTIVE: Mapping[str, str] = {
    "CI": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LESS": "-FRX",
    "MANPAGER": "cat",
    "NO_COLOR": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "NPM_CONFIG_FUND": "false",
    "NPM_CONFIG_YES": "true",
    "PAGER": "cat",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
    "SUDO_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "TERM": "dumb",
    "VISUAL": "false",
}

# How programs say that a variable is missing: the shell's `set -u`, Python's KeyError, plain English.
_MISSING = (
    re.compile(rb"\b([A-Z][A-Z0-9_]{1,63}): (?:unbound variable|parameter (?:not set|null or not set))"),
    re.compile(rb"KeyError: '([A-Z][A-Z0-9_]{1,63})'"),
    re.compile(
        rb"(?i:environment variable|env var)[ :]+['\"`$]?([A-Z][A-Z0-9_]{1,63})\b.{0,40}?"
        rb"(?i:not set|unset|missing|required|undefined|must be)"
    ),
    re.compile(
        rb"\b([A-Z][A-Z0-9_]{1,63})['\"`]? (?i:is not set|must be set|is required|is unset|not set|missing)"
    ),
)


def base_environment(extra: Mapping[str, str] | None = None, *, keep: Sequence[str] = ()) -> dict[str, str]:
    """The scrubbed environment for a command.

    Passes PATH, HOME, locale, time zone and TMPDIR of this process and the names in
    ``keep`` (where set); nothing else, so neither keys nor ``GIT_*`` nor ``LD_*`` reach
    the command. Adds variables that make tools ask nothing and colour nothing, then ``extra``.
    """
    environment: dict[str, str] = {}
    for name, value in os.environ.items():
        if name in _PASSED or name.startswith("LC_") or name in keep:
            environment[name] = value
    environment.setdefault("PATH", _FALLBACK_PATH)
    for name, value in _NON_INTERACTIVE.items():
        if name not in keep:
            environment[name] = value
    environment.update(extra or {})
    return environment


def missing_variable_hint(output: bytes, environment: Mapping[str, str]) -> str:
    """One sentence when the output complains about a variable that the command did not get, or empty."""
    for pattern in _MISSING:
        for match in pattern.finditer(output):
            name = match.group(1).decode("ascii")
            if name not in environment:
                here = "is set outside but" if name in os.environ else "is not set and"
                return (
                    f"{name} {here} commands get a scrubbed environment: only PATH, HOME, locale and "
                    f"variables given explicitly are passed"
                )
    return ""
