"""`whimbrel acp`: the agent for editors that speak the Agent Client Protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .shared import (
    check_sandbox,
    common_fields,
    permission_rules,
    settings_options,
    settle,
    turn_options,
)


@click.command("acp", short_help="The agent for editors that speak the Agent Client Protocol.")
@turn_options
@settings_options
@click.pass_context
def command(ctx: click.Context, **given: Any) -> None:
    """Serves one editor over standard input and output; the editor starts it.

    The options are those of `whimbrel run` and hold for every turn; the editor names the folder.
    A turn works on a copy in a sandbox. What it changed goes into your files only when you say so
    in the editor; `whimbrel undo` takes it back.
    """
    import importlib.util

    from ...sandbox.base.errors import ConfigError

    if importlib.util.find_spec("acp") is None:
        raise ConfigError(
            "the Agent Client Protocol's library is not installed", hint="pip install 'whimbrel[tui]'"
        )
    check_sandbox(given)
    rules = permission_rules(given)
    from ..acp.agent import EditorAgent
    from ..acp.serve import serve
    from ..fix.options import FixOptions
    from .shared import repository_top

    def options_for(folder: Path) -> FixOptions:
        here: dict[str, Any] = {**given, "repo": repository_top(folder), "rules": rules, "output": None}
        here["apply_patch"] = False
        settings = settle(ctx, here)
        return FixOptions(**common_fields(here, settings), max_candidates=settings.limits.candidates)

    sys.exit(serve(EditorAgent(options_for)))
