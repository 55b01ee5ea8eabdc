"""The result as text for people."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping
from typing import Any

_HEADLINES = {
    "fixed": "FIXED and verified in fresh processes",
    "nothing_to_fix": "NOTHING TO FIX",
    "not_fixed": "NOT FIXED",
    "not_reproduced": "NOT REPRODUCED: no failing test shows the problem",
    "ambiguous": "AMBIGUOUS: the evidence cannot tell a right patch from a wrong one",
    "denied": "STOPPED: the run needed something that is not allowed",
    "budget": "STOPPED by a limit",
    "loop": "STOPPED: the model repeated itself",
    "model_error": "STOPPED: the model failed",
    "sandbox_unavailable": "NOT STARTED: no sandbox",
    "sandbox_died": "STOPPED: the sandbox went away",
    "environment_broken": "NOT POSSIBLE: the project's tests cannot run here",
    "configuration": "NOT STARTED: a setting is wrong",
    "usage": "NOT STARTED: an option is wrong",
    "repository": "NOT STARTED: the repository cannot be worked on",
    "cancelled": "CANCELLED",
    "terminated": "TERMINATED",
    "internal_error": "FAILED: a fault of Whimbrel itself",
}
_MAX_REASONS = 100
_MAX_COMMAND = 120
_MAX_TEST_LINES = 40


def summary_lines(result: Mapping[str, Any], *, width: int | None = None) -> list[str]:
    """Located lines, attempts, the diff, tests before and after, the verdict; in that order.

    ``width`` is that of a terminal: prose is wrapped to it, places are cut to it; commands,
    paths and the diff stay whole, to be copied.
    """
    lines: list[str] = [""]
    located = result.get("located") or []
    if located:
        lines.append("Located")
        for place in located[:5]:
            where = f"{place.get('path')}:{place.get('line')}"
            reasons = _shortened("; ".join(place.get("reasons") or []), _MAX_REASONS)
            line = f"  {where:<36} {place.get('function') or '(module)'}  {reasons}".rstrip()
            lines.append(_shortened(line, width or len(line)))
    lines += _reproduction(result.get("reproduction") or {}, width)
    attempts = result.get("attempts") or []
    if attempts:
        lines.append("Attempts")
        for attempt in attempts[:8]:
            lines.append(f"  {attempt.get('name', '')}: {attempt.get('summary', '')}")
    if result.get("explanation"):
        lines += ["What was wrong", *_prose(str(result["explanation"]), width)]
    patch = str(result.get("patch") or "")
    if patch:
        shown = patch.splitlines()
        lines.append("Patch")
        # Where no file could be written, this is the only place that has the patch.
        room = 60 if result.get("output") else len(shown)
        lines += shown[:room]
        if len(shown) > room:
            lines.append(f"  [... {len(shown) - room} more lines in patch.diff ...]")
    before, after = result.get("tests_before") or {}, result.get("tests_after") or {}
    if before or after:
        lines.append("Tests")
        for title, run in (("before", before), ("after", after)):
            if run:
                command = _shortened(str(run.get("command", "")), _MAX_COMMAND)
                lines.append(f"  {title}: {run.get('summary', '')}  [evidence {_rows(run)}]  $ {command}")
    if result.get("test_files_changed"):
        lines.append("  !! the patch changes test files: " + ", ".join(result["test_files_changed"]))
    if result.get("notes"):
        lines.append("Notes")
        lines += [line for note in result["notes"] for line in _prose(str(note), width)]
    status = str(result.get("status"))
    headline = _HEADLINES.get(status, status.replace("_", " ").upper())
    sandbox = result.get("sandbox") or {}
    where = f" (sandbox: {sandbox.get('kind')})" if sandbox.get("kind") else ""
    lines.append(f"Result  {headline}{where}")
    if result.get("message"):
        hint = f" ({result['hint']})" if result.get("hint") else ""
        lines += _prose(f"{result['message']}{hint}", width)
    if result.get("output"):
        lines.append(f"  details: {result['output']}/result.json")
    if status == "fixed":
        lines += _next_step(result)
    return lines


def _reproduction(made: Mapping[str, Any], width: int | None) -> list[str]:
    """The test that was made of the issue, whole: a person should be able to check it."""
    if not made.get("path"):
        return []
    lines = [f"Test made of the issue: {made['path']} (not part of the patch)"]
    for reason in made.get("reasons") or []:
        lines += _prose(str(reason), width)
    return lines + [
        f"    {line}".rstrip() for line in str(made.get("text", "")).splitlines()[:_MAX_TEST_LINES]
    ]


def _next_step(result: Mapping[str, Any]) -> list[str]:
    repository = shlex.quote(str(result.get("repository")))
    if result.get("applied"):
        return [
            f"  the patch is in your files; to take it back: whimbrel undo --repo {repository}",
            *_add_the_test(result),
        ]
    if not result.get("output"):
        return ["  your files are unchanged; the patch is only in what is shown here"]
    return [
        f"  patch: {result['output']}/patch.diff",
        f"  your files are unchanged; to apply the patch: whimbrel apply --repo {repository}",
        *_add_the_test(result),
    ]


def _add_the_test(result: Mapping[str, Any]) -> list[str]:
    if not (result.get("reproduction") or {}).get("path"):
        return []
    diff = shlex.quote(f"{result['output']}/reproduction.diff")
    repository = shlex.quote(str(result.get("repository")))
    return [f"  to add the test made of the issue: git -C {repository} apply {diff}"]


def _prose(text: str, width: int | None) -> list[str]:
    lines = text.splitlines() or [""]
    if width:
        room = max(20, width - 2)
        lines = [
            piece
            for line in lines
            for piece in textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False) or [""]
        ]
    return [f"  {line}" for line in lines]


def _shortened(text: str, room: int) -> str:
    """Cut at a word's end, and visibly, where it is too long for a line."""
    if len(text) <= room:
        return text
    kept = text[: room - 3]
    return kept[: max(kept.rfind(" "), room // 2)].rstrip(" ;,") + "..."


def _rows(run: Mapping[str, Any]) -> str:
    return ", ".join(str(row) for row in run.get("ledger_rows", []))
