"""Runs fix-issue in a pipeline and leaves what the pipeline can keep.

Everything it is told comes from variables: an input that were put into a shell script by the
workflow's templating could become part of the script.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import UsageError, WhimbrelError
from ..fix.doors import PlainDoor, write_line
from ..fix.main import run_fix_issue
from ..fix.options import FixOptions, parse_duration
from ..reports import ReportRequest
from ..reports.github import append_output
from ..reports.safe import command_data
from .branch import branch_name, push_patch
from .pipeline import Pipeline, read_pipeline

_NO_FAILURE = (0, 3, 4, 6, 7)
"""Exit codes of fix-issue after which this step passes: the pipeline has failed already, and whether
there is a patch is told by the outputs."""
_REPORTS = ("junit", "sarif", "markdown", "github")


class _Door(PlainDoor):
    """Plain lines, and the result kept."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.result: dict[str, Any] = {}

    def show(self, event: Any) -> None:
        if event.kind == "result":
            self.result = event.data
        super().show(event)


def run_pipeline(environ: MutableMapping[str, str], *, spent_s: float = 0.0) -> int:
    """One run; returns the exit code of the step.

    Raises:
        UsageError: an input is wrong, or asks for what foreign code must not get.
    """
    pipeline = read_pipeline(environ)
    if pipeline.base_branch:
        # Read wherever instructions are looked for: they come from there, not from the change.
        environ.setdefault("GITHUB_BASE_REF", pipeline.base_branch)
    output = Path(_given(environ, "OUTPUT") or "whimbrel-result").absolute()
    options = _options(environ, pipeline, output, spent_s)
    door = _Door()
    silence = f"whimbrel-{secrets.token_hex(16)}" if pipeline.kind == "github" else ""
    if silence:
        # What tests and models write must not be taken for commands of the runner.
        write_line(sys.stdout, f"::stop-commands::{silence}")
    try:
        code = run_fix_issue(options, door)
    finally:
        if silence:
            write_line(sys.stdout, f"::{silence}::")
    result = door.result
    branch = _branch(environ, pipeline, options.repository, result)
    if pipeline.kind == "github":
        _tell_github(environ, result, output, branch)
    return 0 if code in _NO_FAILURE else code


def _options(environ: Mapping[str, str], pipeline: Pipeline, output: Path, spent_s: float) -> FixOptions:
    sandbox = _given(environ, "SANDBOX") or "auto"
    issue = _given(environ, "ISSUE")
    if pipeline.foreign:
        if sandbox not in ("auto", "docker", "bwrap"):
            raise UsageError(
                f"the code of a fork is not run in the sandbox {sandbox}, which does not isolate",
                hint="leave the sandbox input out",
            )
        if issue:
            _warn(pipeline, "the issue input is not used: this run may have been started from a fork")
            issue = ""
    if sandbox not in ("auto", "docker", "bwrap", "host", "outer"):
        raise UsageError(f"'{sandbox}' is no sandbox", hint="auto, docker, bwrap, host or outer")
    effort = _given(environ, "EFFORT") or "auto"
    if effort not in ("auto", "low", "high", "max"):
        raise UsageError(f"'{effort}' is no effort", hint="auto, low, high or max")
    try:
        max_time_s = parse_duration(_given(environ, "MAX_TIME") or "30m")
    except ValueError as error:
        raise UsageError(str(error)) from error
    log = _given(environ, "LOG")
    return FixOptions(
        repository=Path(_given(environ, "REPOSITORY") or "."),
        issue=issue or None,
        issue_is_text=True,
        log=Path(log) if log else None,
        tests=tuple(line for line in _given(environ, "TESTS").splitlines() if line.strip()),
        python=_given(environ, "PYTHON") or None,
        model=_given(environ, "MODEL") or "embedded",
        effort=effort,
        sandbox=sandbox,
        max_time_s=max_time_s,
        spent_s=spent_s,
        output=output,
        reports=tuple(
            ReportRequest(name, output / "annotations.txt" if name == "github" else None)
            for name in _REPORTS
            if name != "github" or pipeline.kind == "github"
        ),
    )


def _branch(
    environ: Mapping[str, str], pipeline: Pipeline, repository: Path, result: Mapping[str, Any]
) -> str:
    wanted = _given(environ, "BRANCH").lower()
    if wanted in ("", "false", "no", "0") or result.get("status") != "fixed":
        return ""
    if pipeline.foreign:
        _warn(pipeline, "no branch is made for the code of a fork; the patch is in the artefact")
        return ""
    name = branch_name(pipeline.number, result)
    try:
        push_patch(Path(str(result.get("repository") or repository)), result, name)
    except WhimbrelError as error:
        _warn(pipeline, error.one_line())
        return ""
    write_line(sys.stdout, f"the patch is on the branch {name}")
    return name


def _tell_github(environ: Mapping[str, str], result: Mapping[str, Any], output: Path, branch: str) -> None:
    """Annotations, and the outputs of the step."""
    shown = output / "annotations.txt"
    if shown.is_file():
        for line in shown.read_text(encoding="utf-8").splitlines():
            write_line(sys.stdout, line)
    place = environ.get("GITHUB_OUTPUT")
    if not place:
        return
    patch = output / "patch.diff"
    outputs = {
        "status": str(result.get("status") or ""),
        "exit-code": str(result.get("exit_code", "")),
        "message": str(result.get("message") or ""),
        "explanation": str(result.get("explanation") or ""),
        "patch": str(patch) if patch.is_file() else "",
        "output": str(output),
        "branch": branch,
    }
    for name, value in outputs.items():
        append_output(Path(place), name, value)


def _given(environ: Mapping[str, str], name: str) -> str:
    return environ.get(f"WHIMBREL_{name}", "").strip()


def _warn(pipeline: Pipeline, text: str) -> None:
    mark = "::warning title=Whimbrel::" if pipeline.kind == "github" else "warning: "
    write_line(sys.stdout, mark + (command_data(text) if pipeline.kind == "github" else text))
