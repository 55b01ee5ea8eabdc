"""What pipeline this is, and whose code it runs: read from the runner's variables and event file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class Pipeline:
    """Facts about the run of the pipeline."""

    kind: str
    """``github``, ``gitlab`` or ``other``."""
    foreign: bool
    """The code comes from a fork: its author may not write here. True when that cannot be told."""
    base_branch: str = ""
    """The branch that a change is meant for, where the runner does not say it by itself."""
    number: str = ""
    """Of the run; part of the name of a branch."""


def read_pipeline(environ: Mapping[str, str]) -> Pipeline:
    """Reads it; what is damaged or missing makes the code foreign, never the other way round."""
    if environ.get("GITHUB_ACTIONS") == "true":
        return _github(environ)
    if environ.get("GITLAB_CI") == "true":
        source = environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "")
        asked = bool(environ.get("CI_MERGE_REQUEST_IID"))
        return Pipeline(
            "gitlab",
            foreign=asked and source != environ.get("CI_PROJECT_ID", ""),
            number=environ.get("CI_PIPELINE_ID", ""),
        )
    return Pipeline("other", foreign=False)


def _github(environ: Mapping[str, str]) -> Pipeline:
    event = environ.get("GITHUB_EVENT_NAME", "")
    number = environ.get("GITHUB_RUN_ID", "")
    try:
        data: Any = json.loads(Path(environ.get("GITHUB_EVENT_PATH") or "/nonexistent").read_bytes())
    except (OSError, ValueError):
        data = None
    if not isinstance(data, dict):
        return Pipeline("github", foreign=True, number=number)
    payload = cast("dict[str, Any]", data)
    here = _at(payload, "repository", "full_name")
    foreign, base = False, ""
    if "pull_request" in payload or event.startswith("pull_request"):
        theirs = _at(payload, "pull_request", "head", "repo", "full_name")
        foreign = theirs is None or theirs != _at(payload, "pull_request", "base", "repo", "full_name")
        base = str(_at(payload, "pull_request", "base", "ref") or "")
    elif "workflow_run" in payload or event == "workflow_run":
        theirs = _at(payload, "workflow_run", "head_repository", "full_name")
        foreign = theirs is None or theirs != here
        base = str(_at(payload, "repository", "default_branch") or "") if foreign else ""
    elif event in ("issue_comment", "issues", "discussion", "discussion_comment"):
        # Anybody can start these.
        foreign = True
    return Pipeline("github", foreign, base, number)


def _at(data: dict[str, Any], *names: str) -> Any:
    found: Any = data
    for name in names:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, Any]", found).get(name)
    return found
