"""`whimbrel locate`: where the fault may be, and why; changes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click


def _duration(_: click.Context, __: click.Parameter, value: str) -> float:
    from ..fix.options import parse_duration

    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _given(_: click.Context, __: click.Parameter, value: Any) -> Any:
    """Refuses empty values: `--commit "$UNSET"` must not quietly mean something else."""
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and not text.strip():
            raise click.BadParameter("it is empty; leave the option out or give it a value")
    return value


@click.command("locate", short_help="Rank files, functions and lines that may hold the fault.")
@click.option("--repo", metavar="PATH", callback=_given, default=".", help="The repository (default: here).")
@click.option("--commit", callback=_given, metavar="REV", help="Look at this commit or branch instead.")
@click.option(
    "--issue", metavar="TEXT|FILE|-|URL", help="The issue: text, a file, standard input, a GitHub issue."
)
@click.option(
    "--tests",
    multiple=True,
    callback=_given,
    metavar="ID|COMMAND",
    help="Id, file or folder of tests (repeatable), or one shell command.",
)
@click.option(
    "--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many of each to give."
)
@click.option("--python", callback=_given, metavar="PATH", help="Interpreter that runs the project's tests.")
@click.option("--trust", is_flag=True, help="Obey what the repository configures (recipe, Dockerfile).")
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "docker", "bwrap", "host", "outer"]),
    default="auto",
    show_default=True,
    help="Where the tests run; host and outer do not isolate.",
)
@click.option("--image", callback=_given, help="Container image for the docker sandbox.")
@click.option("--network", is_flag=True, help="Let the sandbox reach the network.")
@click.option("--no-build", is_flag=True, help="Never build images or environments.")
@click.option(
    "--max-time",
    metavar="DURATION",
    default="30m",
    show_default=True,
    callback=_duration,
    help="Ends the run, for example 90s, 15m, 2h.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there."
)
@click.pass_context
def command(ctx: click.Context, **given: Any) -> None:
    """Ranks files, functions and lines that may hold the fault, each with its reasons.

    From the failing tests (coverage, tracebacks, what they call and compare), from an
    issue's text alone when no test fails, or from both. Nothing is changed.

    Exit codes: 0 ranked; 2 usage; 3 no test fails and no issue was given; 6 budget;
    9 sandbox unavailable; 10 configuration; 11 tests cannot run here; 130 cancelled;
    143 terminated.
    """
    if given["image"] and given["sandbox"] not in ("auto", "docker"):
        raise click.UsageError(f"--image belongs to the docker sandbox, not to --sandbox {given['sandbox']}")
    from ...sandbox.base.errors import WhimbrelError
    from ..fix.doors import write_line
    from ..fix.locating import SCHEMA_VERSION, run_locate
    from ..fix.options import FixOptions

    options = FixOptions(
        repository=Path(given["repo"]),
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
