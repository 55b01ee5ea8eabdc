"""``whimbrel permissions``: remembered answers, and what a command would be allowed to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from .shared import path_given, permission_options, permission_rules

repo_option = click.option(
    "--repo", metavar="PATH", callback=path_given, default=".", help="The repository (default: here)."
)


@click.group()
def group() -> None:
    """Remembered answers; how a command is understood and judged."""


@group.command("list")
@repo_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_grants(repo: Path, as_json: bool) -> None:
    """What need not be asked again in this repository."""
    stored = _grants(repo).stored()
    for number, grant in enumerate(stored, 1):
        if as_json:
            entry = {"number": number, "tool": grant.tool, "subject": grant.subject, "prefix": grant.prefix}
            click.echo(json.dumps(entry))
        else:
            click.echo(f"{number:3}  {grant.shown}")
    if not stored and not as_json:
        click.echo("nothing is remembered for this repository", err=True)


@group.command()
@repo_option
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.option("--all", "everything", is_flag=True, help="All of them.")
def forget(repo: Path, number: int | None, everything: bool) -> None:
    """Takes a remembered answer back, by its number in the list."""
    if (number is None) != everything:
        raise click.UsageError("give the number of an answer (see `whimbrel permissions list`) or --all")
    gone = _grants(repo).forget(number)
    if number is not None and not gone:
        raise click.UsageError(f"there is no remembered answer {number}")
    click.echo(f"{gone} forgotten")


@group.command()
@repo_option
@permission_options
@click.option(
    "--sandbox",
    type=click.Choice(["isolated", "host"]),
    default="isolated",
    show_default=True,
    help="Judge as inside an isolating sandbox, or as on the host without having chosen it.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.argument("command_line", metavar="COMMAND")
@click.pass_context
def test(ctx: click.Context, repo: Path, command_line: str, as_json: bool, **given: Any) -> None:
    """Shows how a command is taken apart, what is decided about each part, and why.

    Runs nothing. Exit code: 0 allowed, 5 asked about or denied.
    """
    from ...sandbox.protocol import SandboxDescription
    from ..agent.permissions import Permissions
    from ..permissions.paths import PathPolicy

    rules = permission_rules(given)
    isolated = given["sandbox"] == "isolated"
    paths = PathPolicy().with_rules(each for rule in rules for each in rule.path_rules()).at(repo.resolve())
    permissions = Permissions.for_sandbox(
        SandboxDescription(kind="isolating" if isolated else "host", isolated=isolated),
        rules=rules,
        chosen=False,
        mode=given["permission_mode"],
        paths=paths,
        grants=_grants(repo),
    )
    judged = permissions.judge(command_line)
    verdict = judged.verdict
    if as_json:
        steps = [
            {
                "command": step.command.shown,
                "inside": list(step.command.via),
                "decision": step.verdict.decision.value,
                "reason": step.verdict.reason,
            }
            for step in judged.steps
        ]
        whole = {"decision": verdict.decision.value, "reason": verdict.reason}
        click.echo(json.dumps({**whole, "problems": list(judged.problems), "commands": steps}))
    else:
        for step in judged.steps:
            inside = f"  (inside {' > '.join(step.command.via)})" if step.command.via else ""
            click.echo(f"  {step.verdict.decision.value:5}  {_printable(step.command.shown)}{inside}")
            click.echo(f"         {_printable(step.verdict.reason)}")
        for problem in judged.problems:
            click.echo(f"  unclear: {_printable(problem)}")
        click.echo(f"{verdict.decision.value}: {_printable(verdict.reason)}")
    sys.exit(0 if verdict.decision.value == "allow" else 5)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _grants(repo: Path) -> Any:
    from ...sandbox.base.errors import UsageError
    from ..permissions.grants import Grants

    if not repo.is_dir():
        raise UsageError(f"{repo} is not a directory")
    top = next(
        (place for place in (repo.resolve(), *repo.resolve().parents) if (place / ".git").exists()), repo
    )
    return Grants(top)
