"""`whimbrel fix-issue`: the headless door."""

from __future__ import annotations

import sys
from typing import Any

import click

from .shared import (
    check_sandbox,
    common_fields,
    issue_option,
    limit_options,
    model_options,
    not_empty,
    path_given,
    permission_options,
    permission_rules,
    python_option,
    repository_options,
    sandbox_options,
    settings_options,
    settle,
    tests_option,
    tool_options,
)


def _reports(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> Any:
    if not value:
        return ()
    from ..reports.writing import parse_request

    try:
        return tuple(parse_request(text) for text in value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("fix-issue", short_help="Issue and repository in; verified patch and evidence out.")
@repository_options
@click.option("--branch", callback=not_empty, metavar="NAME", help="Start from the head of this branch.")
@issue_option
@click.option(
    "--log", metavar="PATH", callback=path_given, help="A failing CI log to read tests and traces from."
)
@tests_option
@python_option
@click.option(
    "--trust",
    is_flag=True,
    help="Obey what the repository configures (recipe, Dockerfile); run an issue's code without isolation.",
)
@model_options
@sandbox_options
@click.option(
    "--max-steps",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Questions to the model.",
)
@limit_options
@click.option(
    "--max-candidates",
    type=click.IntRange(min=1),
    help="Edits a search tries at most; then only --max-time bounds its time, and the patch is the same"
    " on any machine.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same input and seed give the same patch.",
)
@tool_options
@permission_options
@click.option("--output", metavar="PATH", callback=path_given, help="Folder for result.json and patch.diff.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FORMAT[=FILE]",
    callback=_reports,
    help="junit, sarif, github, markdown, swebench or jsonl (repeatable; default file: beside result.json).",
)
@click.option("--apply", "apply_patch", is_flag=True, help="Apply a verified patch to the working tree.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output, nothing else there.")
@settings_options
@click.pass_context
def command(ctx: click.Context, **given: Any) -> None:
    """Repairs a repository: an issue and failing tests in, a verified minimal patch and evidence out.

    Works on a copy in a sandbox. Your files, index and branches are not touched unless
    you say --apply (or run `whimbrel apply` later).

    Exit codes: 0 fixed and verified; 2 usage; 3 nothing to fix; 4 not fixed; 5 denied;
    6 budget; 7 loop; 8 model; 9 sandbox unavailable; 10 configuration; 11 tests cannot
    run here; 130 cancelled; 143 terminated.
    """
    if given["commit"] and given["branch"]:
        raise click.UsageError("give --commit or --branch, not both")
    check_sandbox(given)
    given["rules"] = permission_rules(given)
    from ...sandbox.base.errors import WhimbrelError
    from ..config import Settings
    from ..fix.doors import make_door
    from ..fix.main import run_fix_issue
    from ..fix.options import FixOptions

    settings, refused = Settings(), None
    try:
        settings = settle(ctx, given)
    except WhimbrelError as error:
        refused = error  # told after the result file is there
    options = FixOptions(
        **common_fields(given, settings),
        revision=given["commit"] or given["branch"],
        issue=given["issue"],
        log=given["log"],
        max_candidates=given["max_candidates"],
        reports=given["reports"],
        quiet_stdout=given["as_json"],
    )
    debug = bool((ctx.obj or {}).get("debug"))
    door = make_door(as_json=given["as_json"])
    sys.exit(run_fix_issue(options, door, debug=debug, refused=refused))
