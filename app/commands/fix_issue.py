"""`whimbrel fix-issue`: the headless door."""

from __future__ import annotations

import sys
from typing import Any

import click

from .age import process_age_s
from .shared import (
    allow_http_option,
    check_sandbox,
    issue_option,
    not_empty,
    path_given,
    permission_options,
    permission_rules,
    python_option,
    repository_options,
    sandbox_options,
    tests_option,
)


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
@click.option(
    "--model",
    callback=not_empty,
    default="embedded",
    show_default=True,
    help="embedded (needs no network), llama:FILE.gguf, or KIND:NAME or KIND:NAME@URL with KIND one of"
    " openai, anthropic, vllm, sglang, llamacpp, ollama, deepseek, kimi-api, openrouter.",
)
@click.option(
    "--effort",
    type=click.Choice(["auto", "low", "high", "max"]),
    default="auto",
    show_default=True,
    help="How hard a remote model thinks; auto: each step as much as it needs. Changes nothing for embedded.",
)
@allow_http_option
@click.option(
    "--max-cost",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="Ends the run; needs an endpoint that tells costs, or prices (WHIMBREL_PRICES).",
)
@click.option(
    "--context",
    type=click.Choice(["auto", "map", "whole-repo"]),
    default="auto",
    show_default=True,
    help="What a remote model gets of the repository in advance; auto: all source files where they fit in"
    " a quarter of its window, else a map.",
)
@sandbox_options
@click.option("--web", is_flag=True, help="Let the model read public web pages (web_fetch).")
@click.option("--no-lint", is_flag=True, help="Do not run the project's linter or type checker after edits.")
@click.option(
    "--max-steps",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Questions to the model.",
)
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
@click.option(
    "--mcp",
    multiple=True,
    callback=not_empty,
    metavar="NAME|none",
    help="MCP servers whose tools the model may call; again for more (default: those configured).",
)
@click.option(
    "--instructions-from",
    metavar="REV",
    callback=not_empty,
    help="Read AGENTS.md, skills and servers at the merge base with REV, as CI does with the target branch.",
)
@permission_options
@click.option("--output", metavar="PATH", callback=path_given, help="Folder for result.json and patch.diff.")
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
    check_sandbox(given)
    rules = permission_rules(given)
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
        context=given["context"],
        max_cost_usd=given["max_cost"],
        sandbox=given["sandbox"],
        image=given["image"],
        network=given["network"],
        web=given["web"],
        lint=not given["no_lint"],
        max_time_s=given["max_time"],
        spent_s=process_age_s(),
        max_steps=given["max_steps"],
        max_candidates=given["max_candidates"],
        seed=given["seed"],
        output=given["output"],
        apply=given["apply_patch"],
        allow_build=not given["no_build"],
        mcp=given["mcp"],
        instructions_from=given["instructions_from"],
        rules=rules,
        permission_mode=given["permission_mode"],
    )
    debug = bool((ctx.obj or {}).get("debug"))
    door = make_door(as_json=given["as_json"])
    sys.exit(run_fix_issue(options, door, debug=debug))
