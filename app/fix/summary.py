"""The result as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEADLINES = {
    "fixed": "FIXED and verified in fresh processes",
    "nothing_to_fix": "NOTHING TO FIX",
    "not_fixed": "NOT FIXED",
    "not_reproduced": "NOT REPRODUCED",
    "ambiguous": "AMBIGUOUS: several patches pass and the evidence cannot tell them apart",
    "cancelled": "CANCELLED",
    "terminated": "TERMINATED",
}


def summary_lines(result: Mapping[str, Any]) -> list[str]:
    """Located lines, attempts, the diff, tests before and after, the verdict; in that order."""
    lines: list[str] = [""]
    located = result.get("located") or []
    if located:
        lines.append("Located")
        for place in located[:5]:
            where = f"{place.get('path')}:{place.get('line')}"
            reasons = "; ".join(place.get("reasons") or [])[:100]
            lines.append(f"  {where:<36} {place.get('function') or '(module)'}  {reasons}".rstrip())
    attempts = result.get("attempts") or []
    if attempts:
        lines.append("Attempts")
        for attempt in attempts[:8]:
            lines.append(f"  {attempt.get('name', '')}: {attempt.get('summary', '')}")
    if result.get("explanation"):
        lines += ["What was wrong", f"  {result['explanation']}"]
    patch = str(result.get("patch") or "")
    if patch:
        shown = patch.splitlines()
        lines.append("Patch")
        lines += shown[:60]
        if len(shown) > 60:
            lines.append(f"  [... {len(shown) - 60} more lines in patch.diff ...]")
    before, after = result.get("tests_before") or {}, result.get("tests_after") or {}
    if before or after:
        lines.append("Tests")
        for title, run in (("before", before), ("after", after)):
            if run:
                lines.append(
                    f"  {title}: {run.get('summary', '')}  [rows {_rows(run)}]  $ {run.get('command', '')}"[
                        :200
                    ]
                )
    if result.get("test_files_changed"):
        lines.append("  !! the patch changes test files: " + ", ".join(result["test_files_changed"]))
    if result.get("notes"):
        lines.append("Notes")
        lines += [f"  {note}" for note in result["notes"]]
    status = str(result.get("status"))
    headline = _HEADLINES.get(status, status.replace("_", " ").upper())
    sandbox = result.get("sandbox") or {}
    where = f" (sandbox: {sandbox.get('kind')})" if sandbox.get("kind") else ""
    lines.append(f"Result  {headline}{where}")
    if result.get("message"):
        hint = f" ({result['hint']})" if result.get("hint") else ""
        lines.append(f"  {result['message']}{hint}")
    if result.get("output"):
        lines.append(f"  details: {result['output']}/result.json")
    if status == "fixed" and not result.get("applied"):
        lines.append(
            "  your files are unchanged; to apply the patch: whimbrel apply --repo "
            + str(result.get("repository"))
        )
    return lines


def _rows(run: Mapping[str, Any]) -> str:
    return ", ".join(str(row) for row in run.get("ledger_rows", []))
