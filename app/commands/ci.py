"""`whimbrel ci`: what the GitHub Action and the GitLab template run."""

from __future__ import annotations

import sys

import click

from .age import process_age_s


@click.command("ci", short_help="Repair a failing pipeline (the GitHub Action and GitLab template run it).")
def command() -> None:
    """Runs fix-issue in a failing pipeline and leaves patch, reports and outputs.

    Its inputs are variables, so that nothing becomes part of a shell script: WHIMBREL_REPOSITORY,
    WHIMBREL_OUTPUT, WHIMBREL_ISSUE (text), WHIMBREL_LOG (file), WHIMBREL_TESTS (one a line),
    WHIMBREL_PYTHON, WHIMBREL_MODEL, WHIMBREL_EFFORT, WHIMBREL_SANDBOX, WHIMBREL_MAX_TIME and
    WHIMBREL_BRANCH (true: push the patch as whimbrel/fix-...).

    Code of a fork runs only in an isolating sandbox, gets no branch, and the issue input is not used.

    Exit codes: 0 also when nothing was fixed (see the outputs); 1, 2, 5, 8 to 11, 130 and 143 as of
    fix-issue.
    """
    import os

    from ..ci.run import run_pipeline

    sys.exit(run_pipeline(os.environ, spent_s=process_age_s()))
