"""Options that mean the same in every command that runs a repository's tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..permissions.modes import MODES
from .age import process_age_s

if TYPE_CHECKING:
    from ..config import Settings

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
settings_options = together(
    click.option("--profile", metavar="NAME", callback=not_empty, help="Use a profile of your settings."),
    click.option(
        "-c",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="One setting for this run (repeatable), such as -c limits.steps=20.",
    ),
)
model_options = together(
    click.option(
        "--model",
        callback=not_empty,
        default="embedded",
        show_default=True,
        help="embedded (needs no network), llama:FILE.gguf, kimi:DIR, or KIND:NAME or KIND:NAME@URL with"
        " KIND one of openai, anthropic, vllm, sglang, llamacpp, ollama, deepseek, kimi-api, openrouter.",
    ),
    click.option(
        "--effort",
        type=click.Choice(["auto", "low", "high", "max"]),
        default="auto",
        show_default=True,
        help="How hard a remote model thinks; auto: each step as much as it needs.",
    ),
    allow_http_option,
    click.option(
        "--context",
        type=click.Choice(["auto", "map", "whole-repo"]),
        default="auto",
        show_default=True,
        help="What a remote model gets of the repository in advance; auto: all source files where they fit in"
        " a quarter of its window, else a map.",
    ),
)
tool_options = together(
    click.option("--web", is_flag=True, help="Let the model read public web pages (web_fetch)."),
    click.option(
        "--no-lint", is_flag=True, help="Do not run the project's linter or type checker after edits."
    ),
    click.option(
        "--mcp",
        multiple=True,
        callback=not_empty,
        metavar="NAME|none",
        help="MCP servers whose tools the model may call; again for more (default: those configured).",
    ),
    click.option(
        "--instructions-from",
        metavar="REV",
        callback=not_empty,
        help="Read AGENTS.md, skills and servers at the merge base with REV, as CI does.",
    ),
)
limit_options = together(
    click.option("--max-tokens", type=click.IntRange(min=1), help="Input and output of all steps together."),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="US dollars at most; needs an endpoint that tells costs, or prices (settings, WHIMBREL_PRICES).",
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


_RULE_HELP = "KIND or KIND(PATTERN), like 'bash(git log*)', 'read(.env)', 'write(docs/**)'; repeatable."
permission_options = together(
    click.option("--allow", multiple=True, metavar="RULE", help=f"Allow without asking: {_RULE_HELP}"),
    click.option("--ask", multiple=True, metavar="RULE", help="Ask before it; without a person that denies."),
    click.option("--deny", multiple=True, metavar="RULE", help="Never allow it."),
    click.option(
        "--permission-mode",
        type=click.Choice(MODES),
        default="default",
        show_default=True,
        help="What the model may do unless a rule says otherwise; see docs/permissions.md.",
    ),
)


trust_option = click.option(
    "--trust", is_flag=True, help="Obey what the repository configures (recipe, Dockerfile, settings)."
)
turn_options = together(
    tests_option,
    python_option,
    trust_option,
    model_options,
    sandbox_options,
    click.option(
        "--max-steps",
        type=click.IntRange(1, 10_000),
        default=100,
        show_default=True,
        help="Questions to the model for each prompt.",
    ),
    limit_options,
    tool_options,
    permission_options,
    click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For models that take one."
    ),
)
"""Of every command that runs turns of a conversation."""


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


_FROM_SETTINGS: dict[str, tuple[str, str]] = {
    # parameter: (section, key) of the setting that counts where the option is not given
    "model": ("model", "name"),
    "effort": ("effort", "default"),
    "sandbox": ("sandbox", "kind"),
    "image": ("sandbox", "image"),
    "network": ("sandbox", "network"),
    "max_time": ("limits", "time"),
    "max_steps": ("limits", "steps"),
    "max_tokens": ("limits", "tokens"),
    "max_cost": ("limits", "cost_usd"),
    "max_candidates": ("limits", "candidates"),
    "context": ("context", "mode"),
}


def settle(ctx: click.Context, given: dict[str, Any]) -> Settings:
    """Loads the settings of this run and fills ``given`` where the person gave no option.

    Raises:
        ConfigError, UsageError: a settings file, a variable, ``-c`` or ``--profile`` is wrong.
    """
    from ..config import load_settings

    loaded = load_settings(
        given["repo"], trust=given.get("trust", False), profile=given.pop("profile"),
        overrides=given.pop("overrides"),
    )  # fmt: skip
    for note in loaded.notes:
        click.echo(f"note: {note}", err=True)
    for name, (section, key) in _FROM_SETTINGS.items():
        if name in given and not said(ctx, name):
            given[name] = getattr(getattr(loaded.settings, section), key)
    if "no_build" in given and not said(ctx, "no_build"):
        given["no_build"] = not loaded.settings.sandbox.build
    if not said(ctx, "image") and given["sandbox"] not in ("auto", "docker"):
        given["image"] = None
    if "rules" in given:
        from ..config.rules import permission_rules as of_settings

        given["rules"] = (*given["rules"], *of_settings(loaded.settings))
    return loaded.settings


def said(ctx: click.Context, name: str) -> bool:
    """Whether the person gave this option on the command line."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def repository_top(repo: Path) -> Path:
    """The repository a folder lies in, or the folder itself.

    Raises:
        UsageError: there is no such folder.
    """
    if not repo.is_dir():
        from ...sandbox.base.errors import UsageError

        raise UsageError(f"{repo} is not a directory")
    here = repo.resolve()
    return next((place for place in (here, *here.parents) if (place / ".git").exists()), here)


def common_fields(given: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Fields of ``FixOptions`` that mean the same in every command that runs the agent."""
    same = (
        "tests", "python", "trust", "model", "effort", "context", "web", "mcp", "instructions_from", "rules",
        "permission_mode", "sandbox", "image", "network", "max_steps", "max_tokens", "seed", "output",
    )  # fmt: skip
    return {
        **{name: given[name] for name in same},
        "repository": given["repo"],
        "lint": not given["no_lint"],
        "max_time_s": given["max_time"],
        "spent_s": process_age_s(),
        "max_cost_usd": given["max_cost"],
        "apply": given["apply_patch"],
        "allow_build": not given["no_build"],
        "settings": settings,
    }
