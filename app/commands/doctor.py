"""`whimbrel doctor`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say what is here, what is missing, and what each missing thing costs.

    Exit code 0 when the main job can run, 9 when no isolating sandbox works, 10 without git.
    """
    from ..doctor import diagnose, render, to_json

    diagnosis = asyncio.run(diagnose())
    if as_json:
        click.echo(json.dumps(to_json(diagnosis), indent=2))
    else:
        colour = (
            bool(sys.stdout and sys.stdout.isatty())
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )
        width = min(110, max(60, shutil.get_terminal_size((100, 24)).columns))
        click.echo(render(diagnosis, colour=colour, width=width), color=colour)
    ctx.exit(diagnosis.exit_code)
