"""``whimbrel tui``: the terminal interface."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .shared import (
    check_sandbox,
    not_empty,
    permission_rules,
    repository_top,
    settings_options,
    turn_options,
)

if TYPE_CHECKING:
    from ..fix.options import FixOptions


@click.command("tui", short_help="The terminal interface (also: whimbrel without arguments).")
@click.argument("directory", required=False, default=".", metavar="[DIR]")
@click.option("--continue", "latest", is_flag=True, help="Go on with this repository's last session.")
@click.option("--resume", callback=not_empty, metavar="ID", help="Go on with a session (start of its id).")
@click.option("--attach", callback=not_empty, metavar="ID", help="Watch a session that another process runs.")
@click.option("--plain", is_flag=True, help="Lines only, for screen readers and simple terminals.")
@click.option("--inline", is_flag=True, help="Below the shell's prompt instead of the whole screen.")
@click.option("--serve", is_flag=True, help="In a browser on this machine, at an address with a token.")
@click.option("--port", type=click.IntRange(0, 65535), help="Of --serve.  [default: 8765, or any free one]")
@click.option("--theme", callback=not_empty, metavar="NAME", help="Colours for this time.")
@turn_options
@settings_options
@click.pass_context
def command(ctx: click.Context, directory: str, **given: Any) -> None:
    """Opens the terminal interface in DIR (default: here).

    Prompts go to the model as with `run`; /fix repairs as `fix-issue` does; /help shows
    the rest. Your files change only when you apply what a run gave.
    """
    check_sandbox(given)
    given["rules"] = permission_rules(given)
    ways = [name for name in ("latest", "resume", "attach") if given[name]]
    if len(ways) > 1:
        raise click.UsageError("give one of --continue, --resume and --attach")
    if given["port"] is not None and not given["serve"]:
        raise click.UsageError("--port goes with --serve")
    if given["serve"]:
        if given["plain"] or given["inline"]:
            raise click.UsageError("--serve has no --plain and no --inline")
        repository_top(Path(directory))
        sys.exit(_serve(given["port"]))
    in_browser = "TEXTUAL_DRIVER" in os.environ
    _need_terminal(plain=given["plain"] or in_browser)
    top = repository_top(Path(directory))
    from ..tui.runs import Launch

    launch = Launch(
        repository=top,
        prepare=lambda: _options(ctx, top, dict(given)),
        resume=given["resume"],
        latest=given["latest"],
        attach=given["attach"],
        theme=given["theme"] or "",
        inline=given["inline"],
    )
    if given["plain"] or os.environ.get("TERM", "dumb") in ("", "dumb"):
        from ..tui.plain import run_plain

        sys.exit(run_plain(launch))
    from ..tui.app import run_tui

    sys.exit(run_tui(launch))


def _need_terminal(*, plain: bool) -> None:
    streams: list[Any] = [sys.stdin, sys.stdout]
    if plain or all(stream is not None and stream.isatty() for stream in streams):
        return
    from ...sandbox.base.errors import UsageError

    raise UsageError(
        "the interface needs a terminal on standard input and output",
        hint="without one: whimbrel run PROMPT, whimbrel fix-issue, or whimbrel tui --plain",
    )


def _serve(port: int | None) -> int:
    from importlib.util import find_spec

    from ...sandbox.base.errors import ConfigError

    if find_spec("textual_serve") is None:
        raise ConfigError(
            "--serve needs textual-serve, which is not installed", hint="pip install 'whimbrel[tui]'"
        )
    from ..tui.serving import serve

    return serve(sys.argv[1:], port)


def _options(ctx: click.Context, top: Path, given: dict[str, Any]) -> FixOptions:
    """Options and settings as `run` reads them.

    Raises:
        ConfigError, UsageError: a settings file, a variable, ``-c`` or ``--profile`` is wrong.
    """
    from ..fix.options import FixOptions
    from .shared import common_fields, settle

    given |= {"repo": top, "output": None, "apply_patch": False}
    settings = settle(ctx, given)
    return FixOptions(**common_fields(given, settings), max_candidates=settings.limits.candidates)
