"""`whimbrel batch`: many issues in one go."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_FIXED_BY_BATCH = ("repo", "issue", "output", "as_json", "apply_patch", "commit", "branch")


@click.command("batch", short_help="Run fix-issue on many issues, several at a time, resumable.")
@click.argument("issues", metavar="ISSUES.jsonl|-")
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, help="Folder for results.jsonl and runs/."
)
@click.option("-j", "--jobs", type=click.IntRange(1, 1000), help="Runs at a time (default: half the cores).")
@click.option("--ray", metavar="ADDRESS|auto", help="Run on the Ray cluster there; needs whimbrel[ray].")
@click.option(
    "--again",
    multiple=True,
    metavar="STATUS",
    help="Do issues with this status again, for example not_fixed (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Result lines on standard output, nothing else there.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- FIX-ISSUE OPTIONS]")
def command(
    issues: str,
    output: Path,
    jobs: int | None,
    ray: str | None,
    again: tuple[str, ...],
    as_json: bool,
    options: tuple[str, ...],
) -> None:
    """Runs fix-issue once per line of ISSUES.jsonl, each in a process of its own.

    A line is a JSON object: id and repo, and any of issue, issue_file, tests, commit, branch,
    python, model. Relative paths start at the file's folder. OUTPUT/results.jsonl gets one
    line per issue as it ends; the same command run again goes on with what has none.

    Options behind -- go to every run: whimbrel batch issues.jsonl --output out -- --sandbox docker

    Exit codes: 0 all fixed; 4 some not; 2 usage; 10 configuration; 130 interrupted.
    """
    _check(options)
    _check_statuses(again)
    from ..batch.main import BatchOptions, run_batch

    sys.exit(run_batch(BatchOptions(issues, output.absolute(), jobs, ray, again, as_json, options)))


def _check(options: tuple[str, ...]) -> None:
    """Wrong options are one usage error now, not one per issue later. Raises click.UsageError."""
    from .fix_issue import command as fix_issue

    context = fix_issue.make_context("fix-issue", list(options))
    for name in _FIXED_BY_BATCH:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise click.UsageError(f"--{name.split('_')[-1]} is given by the batch or by a line of its file")


def _check_statuses(again: tuple[str, ...]) -> None:
    """A status that no result can have would quietly do nothing. Raises click.UsageError."""
    from ...sandbox.base import errors

    known = {"fixed", "ambiguous", "not_reproduced"} | {
        each.status
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.WhimbrelError)
    }
    wrong = sorted(set(again) - known)
    if wrong:
        raise click.UsageError(f"{wrong[0]!r} is no status; there are {', '.join(sorted(known))}")
