"""`whimbrel fix-issue`: the headless door."""

from __future__ import annotations

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


def _given_path(ctx: click.Context, param: click.Parameter, value: Any) -> Path | None:
    return None if value is None else Path(_given(ctx, param, value))


@click.command("fix-issue", short_help="Issue and repository in; verified patch and evidence out.")
@click.option(
    "--repo", metavar="PATH", callback=_given_path, default=".", help="The repository (default: here)."
)
@click.option(
    "--commit",
    "commit",
    callback=_given,
    metavar="REV",
    help="Start from this commit instead of the working tree.",
)
@click.option("--branch", callback=_given, metavar="NAME", help="Start from the head of this branch.")
@click.option(
    "--issue", metavar="TEXT|FILE|-|URL", help="The issue: text, a file, standard input, a GitHub issue."
)
@click.option(
    "--log", metavar="PATH", callback=_given_path, help="A failing CI log to read tests and traces from."
)
@click.option(
    "--tests",
    multiple=True,
    callback=_given,
    metavar="ID|COMMAND",
    help="Id, file or folder of tests (repeatable), or one shell command.",
)
@click.option("--python", callback=_given, metavar="PATH", help="Interpreter that runs the project's tests.")
@click.option(
    "--trust",
    is_flag=True,
    help="Obey what the repository configures (recipe, Dockerfile); run an issue's code without isolation.",
)
@click.option(
    "--model",
    callback=_given,
    default="embedded",
    show_default=True,
    help="embedded (needs no network), openai:NAME, openai:NAME@URL or vllm:NAME@URL.",
)
@click.option(
    "--effort",
    type=click.Choice(["low", "high", "max"]),
    default="high",
    show_default=True,
    help="How hard a remote model thinks; changes nothing for embedded.",
)
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "docker", "bwrap", "host", "outer"]),
    default="auto",
    show_default=True,
    help="Where tests and commands run; host and outer do not isolate.",
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
    "--max-steps",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Questions to the model.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same input and seed give the same patch.",
)
@click.option("--output", metavar="PATH", callback=_given_path, help="Folder for result.json and patch.diff.")
@click.option("--apply", "apply_patch", is_flag=True, help="Apply a verified patch to the working tree.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output, nothing else there.")
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
    if given["image"] and given["sandbox"] not in ("auto", "docker"):
        raise click.UsageError(f"--image belongs to the docker sandbox, not to --sandbox {given['sandbox']}")
    from ..fix.doors import make_door
    from ..fix.main import run_fix_issue
    from ..fix.options import FixOptions

    options = FixOptions(
        repository=given["repo"],
        revision=given["commit"] or given["branch"],
        issue=given["issue"],
        log=given["log"],
        tests=given["tests"],
        python=given["python"],
        trust=given["trust"],
        model=given["model"],
        effort=given["effort"],
        sandbox=given["sandbox"],
        image=given["image"],
        network=given["network"],
        max_time_s=given["max_time"],
        max_steps=given["max_steps"],
        seed=given["seed"],
        output=given["output"],
        apply=given["apply_patch"],
        allow_build=not given["no_build"],
    )
    debug = bool((ctx.obj or {}).get("debug"))
    door = make_door(as_json=given["as_json"])
    sys.exit(run_fix_issue(options, door, debug=debug))
