"""`whimbrel locate`: where the fault may be, and why; changes nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from .shared import (
    check_sandbox,
    issue_option,
    python_option,
    repository_options,
    sandbox_options,
    settings_options,
    settle,
    tests_option,
)


@click.command("locate", short_help="Rank files, functions and lines that may hold the fault.")
@repository_options
@issue_option
@tests_option
@click.option(
    "--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many of each to give."
)
@python_option
@click.option("--trust", is_flag=True, help="Obey what the repository configures (recipe, Dockerfile).")
@sandbox_options
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there."
)
@settings_options
@click.pass_context
def command(ctx: click.Context, **given: Any) -> None:
    """Ranks files, functions and lines that may hold the fault, each with its reasons.

    From the failing tests (coverage, tracebacks, what they call and compare), from an
    issue's text alone when no test fails, or from both. Nothing is changed.

    Exit codes: 0 ranked; 2 usage; 3 no test fails and no issue was given; 6 budget;
    9 sandbox unavailable; 10 configuration; 11 tests cannot run here; 130 cancelled;
    143 terminated.
    """
    check_sandbox(given)
    from ...sandbox.base.errors import WhimbrelError
    from ..fix.doors import write_line
    from ..fix.locating import SCHEMA_VERSION, run_locate
    from ..fix.options import FixOptions

    settings = settle(ctx, given)
    options = FixOptions(
        repository=given["repo"],
        revision=given["commit"],
        issue=given["issue"],
        tests=given["tests"],
        python=given["python"],
        trust=given["trust"],
        sandbox=given["sandbox"],
        image=given["image"],
        network=given["network"],
        max_time_s=given["max_time"],
        allow_build=not given["no_build"],
        settings=settings,
    )

    def tell(kind: str, text: str) -> None:
        write_line(sys.stderr, f"{'warning: ' if kind == 'warning' else ''}{text}")

    try:
        result = run_locate(options, given["top"], tell)
    except WhimbrelError as error:
        if not given["as_json"] or (ctx.obj or {}).get("debug"):
            raise
        result = {
            "schema_version": SCHEMA_VERSION,
            "status": error.status,
            "exit_code": error.exit_code,
            "message": " ".join(error.message.split()),
            "hint": " ".join(error.hint.split()),
        }
    if given["as_json"]:
        from ...sandbox.base.secrets import redact_json

        write_line(sys.stdout, json.dumps(redact_json(result), ensure_ascii=False))
    else:
        for line in _for_people(result):
            write_line(sys.stdout, line)
    sys.exit(result["exit_code"])


def _for_people(result: dict[str, Any]) -> list[str]:
    """Three short lists; reasons stand under what they explain."""
    lines: list[str] = []
    failing = result["failing_tests"]
    if failing:
        more = f" and {len(failing) - 3} more" if len(failing) > 3 else ""
        lines.append(f"Failing: {', '.join(failing[:3])}{more}")
    lines.append("Files")
    lines += [f"  {_percent(each['score'])}  {each['path']}" for each in result["files"]]
    lines.append("Functions")
    for each in result["functions"]:
        lines.append(f"  {_percent(each['score'])}  {each['path']}:{each['line']} {each['function']}")
        lines += [f"         {reason}" for reason in each["reasons"]]
    lines.append("Lines")
    for each in result["lines"]:
        lines.append(f"  {_percent(each['score'])}  {each['path']}:{each['line']} in {each['function']}")
        lines += [f"         {reason}" for reason in each["reasons"]]
    lines += [f"Note: {note}" for note in result["notes"]]
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:4.0f}%"
