"""Markdown for a pull request, a merge request or a step's summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..version import __version__
from .safe import code, fence, prose

MOST_CHARS = 60_000
"""A description of a pull request holds 65,536."""
_TITLES = {
    "fixed": "Fixed and verified",
    "nothing_to_fix": "Nothing to fix",
    "not_fixed": "Not fixed",
    "not_reproduced": "Not reproduced",
    "ambiguous": "Ambiguous: the evidence cannot tell a right patch from a wrong one",
    "environment_broken": "The project's tests cannot run here",
}
_ROWS = 20


def markdown_report(result: Mapping[str, Any], *, most: int = MOST_CHARS) -> str:
    """The result as Markdown of about ``most`` characters; text that is not ours is shown, never obeyed."""
    status = str(result.get("status"))
    parts = [f"## Whimbrel: {prose(_TITLES.get(status, status.replace('_', ' ')))}"]
    message = str(result.get("message") or "")
    if message:
        hint = str(result.get("hint") or "")
        parts.append(prose(message + (f" ({hint})" if hint else "")))
    if result.get("explanation"):
        parts += ["### What was wrong", prose(str(result["explanation"]))]
    parts += _located(result) if status != "fixed" else []
    parts += _tests(result)
    patch = str(result.get("patch") or "")
    if patch:
        parts += ["### Patch", fence(patch, "diff", most=max(1000, most - 20_000))]
    made: Mapping[str, Any] = result.get("reproduction") or {}
    if made.get("path"):
        where = f"The test made of the issue, {code(str(made['path']))} (not part of the patch):"
        parts += [where, fence(str(made.get("text") or ""), "python", most=min(4000, most))]
    notes = [f"- {prose(str(note), 500)}" for note in (result.get("notes") or [])[:_ROWS]]
    if notes:
        parts += ["### Notes", "\n".join(notes)]
    parts.append(_foot(result))
    return "\n\n".join(parts) + "\n"


def _located(result: Mapping[str, Any]) -> list[str]:
    places: Sequence[Mapping[str, Any]] = (result.get("located") or [])[:5]
    if not places:
        return []
    lines: list[str] = []
    for place in places:
        spot, function = f"{place.get('path')}:{place.get('line')}", str(place.get("function") or "(module)")
        reasons = prose("; ".join(str(each) for each in place.get("reasons") or []), 200)
        lines.append(f"- {code(spot)} {code(function)} {reasons}".rstrip())
    return ["### Where the fault may be", "\n".join(lines)]


def _tests(result: Mapping[str, Any]) -> list[str]:
    rows: list[str] = []
    for name, key in (("before", "tests_before"), ("after", "tests_after")):
        run: Mapping[str, Any] = result.get(key) or {}
        if run:
            evidence = ", ".join(str(row) for row in run.get("ledger_rows") or [])
            command, summary = code(str(run.get("command") or "")), prose(str(run.get("summary") or ""))
            rows.append(f"| {name} | {summary} | {command} | {evidence} |")
    if not rows:
        return []
    table = "\n".join(["| tests | outcome | command | evidence |", "|---|---|---|---|", *rows])
    targets = [f"- {code(str(test))}" for test in (result.get("target_tests") or [])[:_ROWS]]
    more = len(result.get("target_tests") or []) - len(targets)
    if more > 0:
        targets.append(f"- and {more} more")
    return ["### Tests", table, *(["Tests to turn green:", "\n".join(targets)] if targets else [])]


def _foot(result: Mapping[str, Any]) -> str:
    facts = [f"Whimbrel {__version__}", f"model {code(str(result.get('model') or 'unknown'))}"]
    if result.get("base_commit"):
        facts.append(f"base {code(str(result['base_commit'])[:12])}")
    sandbox: Mapping[str, Any] = result.get("sandbox") or {}
    if sandbox.get("kind"):
        isolated = "" if sandbox.get("isolated") else " (no isolation)"
        facts.append(f"sandbox {prose(str(sandbox['kind']))}{isolated}")
    return f"<sub>{', '.join(facts)}</sub>"
