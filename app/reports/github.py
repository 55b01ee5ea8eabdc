"""GitHub: annotations within their limits, the step's summary, and outputs that cannot be broken out of."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .markdown import markdown_report
from .patches import parse_patch
from .safe import command_data, command_property, one_line
from .tests import path_of

PER_KIND = 10
"""Annotations of one kind that a step shows; a job shows 50 altogether, which three kinds cannot reach."""
SUMMARY_BYTES = 1024 * 1024


def annotation_lines(result: Mapping[str, Any]) -> list[str]:
    """Workflow commands: failing tests as errors, places as warnings, the outcome as notices."""
    lines: list[str] = []
    fixed = result.get("status") == "fixed"
    if fixed:
        text = str(result.get("explanation") or result.get("message") or "")
        spots = [
            (file.path, spot.start, spot.start + max(0, spot.removed - 1))
            for file in parse_patch(str(result.get("patch") or ""))
            for spot in file.replacements[:1] or []
        ]
        shown = [_command("notice", text, "Verified fix", *spot) for spot in spots[:PER_KIND]]
        return shown or [_command("notice", text, "Verified fix")]
    targets = [str(test) for test in result.get("target_tests") or []]
    room = PER_KIND if len(targets) <= PER_KIND else PER_KIND - 1
    for test in targets[:room]:
        lines.append(_command("error", f"{test} fails", "Failing test", path_of(test), 1))
    if len(targets) > room:
        lines.append(_command("error", f"{len(targets) - room} more tests fail", "Failing tests"))
    for place in (result.get("located") or [])[:PER_KIND]:
        reasons = "; ".join(str(reason) for reason in place.get("reasons") or [])
        where = f"{place.get('function') or 'this module'}: {reasons}"
        lines.append(
            _command(
                "warning", where, "The fault may be here", str(place.get("path") or ""), place.get("line"),
                place.get("end_line"),
            )
        )  # fmt: skip
    text = f"{result.get('status')}: {result.get('message')}"
    return [*lines, _command("notice", text, "Whimbrel")]


def _command(
    kind: str, text: str, title: str, path: str = "", line: object = None, end: object = None
) -> str:
    properties = {"title": title}
    if path:
        properties["file"] = one_line(path)
        if isinstance(line, int) and line > 0:
            properties["line"] = str(line)
            if isinstance(end, int) and end >= line:
                properties["endLine"] = str(end)
    given = ",".join(f"{name}={command_property(value)}" for name, value in properties.items())
    return f"::{kind} {given}::{command_data(one_line(text) or kind)}"


def step_summary(result: Mapping[str, Any], *, used: int = 0) -> str:
    """The report for people, within what is left of a step's mebibyte (``used`` bytes are taken)."""
    room = SUMMARY_BYTES - used - 1
    for most in (400_000, 100_000, 20_000, 2_000):
        text = markdown_report(result, most=most)
        if len(text.encode("utf-8")) <= room:
            return text
    return ""


def append_output(file: Path, name: str, value: str) -> None:
    """Adds an output of the step. The delimiter is new each time, so that no value can end itself.

    Raises:
        OSError: it cannot be written.
        ValueError: the value holds the delimiter, which takes more than chance.
    """
    delimiter = f"whimbrel-{secrets.token_hex(16)}"
    if delimiter in value:
        raise ValueError("the delimiter is in the value")
    with file.open("a", encoding="utf-8", errors="replace") as stream:
        stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def append_summary(file: Path, result: Mapping[str, Any]) -> None:
    """Adds the report to the step's summary.

    Raises:
        OSError: it cannot be read or written.
    """
    used = file.stat().st_size if file.exists() else 0
    with file.open("a", encoding="utf-8", errors="replace") as stream:
        stream.write(step_summary(result, used=used))
