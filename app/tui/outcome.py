"""How a run ended, in a few lines: the verdict, the tests before and after, what changed, what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def outcome_lines(result: Mapping[str, Any]) -> list[str]:
    """Plain text, most important first."""
    status = str(result.get("status", ""))
    lines = [f"{_MARKS.get(status, '✗')} {status.replace('_', ' ')}: {result.get('message', '')}"]
    if result.get("hint"):
        lines.append(f"  {result['hint']}")
    before, after = result.get("tests_before") or {}, result.get("tests_after") or {}
    if before.get("summary"):
        lines.append(f"  tests before: {before['summary']}")
    if after.get("summary"):
        lines.append(f"  tests after:  {after['summary']}")
    if result.get("regressions"):
        lines.append(f"  newly failing: {', '.join(map(str, result['regressions'][:5]))}")
    if status == "fixed" and result.get("explanation"):
        lines.append(f"  {result['explanation']}")
    files = result.get("files") or []
    if files:
        names = ", ".join(str(each["path"]) for each in files[:6])
        more = f" and {len(files) - 6} more" if len(files) > 6 else ""
        lines.append(f"  changed: {names}{more}")
        if result.get("applied"):
            lines.append("  in your files now; /undo takes it back")
        elif status in APPLICABLE:
            lines.append("  your files are as they were: F4 reviews the changes, /apply takes them over")
        else:
            lines.append("  your files are as they were; this is not for applying: it was not finished")
            if result.get("output"):
                lines.append(f"  what was tried is kept in {result['output']}")
    return lines


APPLICABLE = ("fixed", "answered")
"""How a run must have ended for its changes to go into the person's files."""
_MARKS = {"fixed": "✓", "answered": "✓", "nothing_to_fix": "✓", "cancelled": "■"}
