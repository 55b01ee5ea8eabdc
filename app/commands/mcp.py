"""`whimbrel mcp`: which servers there are, and whether they can be used."""

from __future__ import annotations

import sys
from typing import Any

import click

from .shared import path_given

_repo = click.option(
    "--repo", metavar="PATH", callback=path_given, default=".", help="The repository (default: here)."
)


@click.group("mcp", short_help="List and check MCP servers.")
def group() -> None:
    """MCP servers: programs and addresses that offer tools to the model.

    Yours are the tables [mcp.NAME] of config.toml in your configuration folder; a trusted
    repository's are in its .mcp.json and .whimbrel/config.toml.
    """


@group.command("list")
@_repo
def list_command(**given: Any) -> None:
    """The servers a run here would start, and where each is configured."""
    from ..fix.extras import configured

    servers, warnings = configured(given["repo"])
    for text in warnings:
        click.echo(f"whimbrel: {text}", err=True)
    if not servers:
        from ..paths import config_dir

        click.echo(f"no MCP server is configured; add a table [mcp.NAME] to {config_dir() / 'config.toml'}")
    for server in servers:
        off = "" if server.enabled else "  (enabled = false)"
        click.echo(f"{server.name}  {server.kind}  {server.shown()}  [{server.origin}]{off}")


@group.command("check")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_repo
def check_command(**given: Any) -> None:
    """Starts the servers (all, or those named), lists their tools, and ends them.

    Exit codes: 0 all can be used; 10 one cannot.
    """
    from ..fix.extras import checked

    sys.exit(checked(given["repo"], given["names"], click.echo))
