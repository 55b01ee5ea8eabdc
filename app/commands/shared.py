"""Options that mean the same in every command that runs a repository's tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def not_empty(_: click.Context, __: click.Parameter, value: Any) -> Any:
    """Refuses empty values: `--commit "$UNSET"` must not quietly mean something else."""
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and not text.strip():
            raise click.BadParameter("it is empty; leave the option out or give it a value")
    return value


def path_given(ctx: click.Context, param: click.Parameter, value: Any) -> Path | None:
    """The same for a path."""
    return None if value is None else Path(not_empty(ctx, param, value))


def _duration(_: click.Context, __: click.Parameter, value: str) -> float:
    from ..fix.options import parse_duration

    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, listed in the order given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _allow_http(_: click.Context, __: click.Parameter, value: bool) -> None:
    if value:
        # The one place that addresses are judged by, also where a model is loaded much later.
        os.environ["WHIMBREL_ALLOW_HTTP"] = "1"


allow_http_option = click.option(
    "--allow-http",
    is_flag=True,
    expose_value=False,
    callback=_allow_http,
    help="Let plain HTTP carry your code and key to another machine (or set WHIMBREL_ALLOW_HTTP=1).",
)
repository_options = together(
    click.option(
        "--repo", metavar="PATH", callback=path_given, default=".", help="The repository (default: here)."
    ),
    click.option(
        "--commit", callback=not_empty, metavar="REV", help="Look at this commit instead of the working tree."
    ),
)
issue_option = click.option(
    "--issue", metavar="TEXT|FILE|-|URL", help="The issue: text, a file, standard input, a GitHub issue."
)
tests_option = click.option(
    "--tests",
    multiple=True,
    callback=not_empty,
    metavar="ID|COMMAND",
    help="Id, file or folder of tests (repeatable), or one shell command.",
)
python_option = click.option(
    "--python", callback=not_empty, metavar="PATH", help="Interpreter that runs the project's tests."
)
sandbox_options = together(
    click.option(
        "--sandbox",
        type=click.Choice(["auto", "docker", "bwrap", "host", "outer"]),
        default="auto",
        show_default=True,
        help="Where tests and commands run; host and outer do not isolate.",
    ),
    click.option("--image", callback=not_empty, help="Container image for the docker sandbox."),
    click.option("--network", is_flag=True, help="Let the sandbox reach the network."),
    click.option("--no-build", is_flag=True, help="Never build images or environments."),
    click.option(
        "--max-time",
        metavar="DURATION",
        default="30m",
        show_default=True,
        callback=_duration,
        help="Ends the run, for example 90s, 15m, 2h.",
    ),
)


def check_sandbox(given: dict[str, Any]) -> None:
    """``--image`` belongs to one sandbox only.

    Raises:
        click.UsageError: it stands beside another.
    """
    if given["image"] and given["sandbox"] not in ("auto", "docker"):
        kind = given["sandbox"]
        raise click.UsageError(f"--image belongs to the docker sandbox, not to --sandbox {kind}")


_RULE_HELP = (
    "KIND or KIND(PATTERN), for example 'bash(git log*)', 'read(.env)', 'write(docs/**)'; repeatable."
)
permission_options = together(
    click.option("--allow", multiple=True, metavar="RULE", help=f"Allow without asking: {_RULE_HELP}"),
    click.option("--ask", multiple=True, metavar="RULE", help="Ask before it; without a person that denies."),
    click.option("--deny", multiple=True, metavar="RULE", help="Never allow it."),
    click.option(
        "--permission-mode",
        type=click.Choice(["default", "plan", "read-only", "accept-edits", "bypass"]),
        default="default",
        show_default=True,
        help="What the model may do unless a rule says otherwise; see docs/permissions.md.",
    ),
)


def permission_rules(given: dict[str, Any]) -> tuple[Any, ...]:
    """The rules of ``--allow``, ``--ask`` and ``--deny``.

    Raises:
        click.UsageError: one of them is no rule.
    """
    texts = [(decision, text) for decision in ("allow", "ask", "deny") for text in given[decision]]
    if not texts:
        return ()
    from ...sandbox.base.errors import UsageError
    from ..permissions.rules import parse_rule

    try:
        return tuple(parse_rule(decision, text) for decision, text in texts)
    except UsageError as error:
        raise click.UsageError(error.one_line()) from error
