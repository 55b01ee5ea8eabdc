"""The result of a run in the forms that other tools read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMATS: Mapping[str, str] = {
    # format: name of its file beside result.json
    "jsonl": "report.jsonl",
    "junit": "junit.xml",
    "sarif": "whimbrel.sarif",
    "github": "annotations.txt",
    "markdown": "report.md",
    "swebench": "predictions.jsonl",
}


@dataclass(frozen=True)
class ReportRequest:
    """One report: ``path`` None is the default file beside result.json (github: standard output)."""

    format: str
    path: Path | None = None


def render(format: str, result: Mapping[str, Any], *, folder: Path, instance_id: str = "") -> bytes:
    """One report of a result (the object in result.json; ``folder`` holds its logs).

    Raises:
        UsageError, RepositoryError: swebench only, when the patch does not fit the commit it names.
    """
    if format == "junit":
        from .junit import junit_report

        return junit_report(result, folder)
    if format == "sarif":
        from .sarif import sarif_report

        return sarif_report(result)
    if format == "github":
        from .github import annotation_lines

        return "".join(f"{line}\n" for line in annotation_lines(result)).encode("utf-8", "replace")
    if format == "markdown":
        from .markdown import markdown_report

        return markdown_report(result).encode("utf-8", "replace")
    if format == "swebench":
        from .swebench import prediction_line

        return prediction_line(result, instance_id)
    from .jsonl import json_lines

    return json_lines(result)
