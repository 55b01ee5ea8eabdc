"""`whimbrel apply` and `whimbrel undo`."""

from __future__ import annotations

from pathlib import Path

import click

_repo = click.option(
    "--repo", type=click.Path(path_type=Path), default=Path(), help="The repository (default: here)."
)


@click.command("apply", short_help="Apply the last verified patch to your working tree.")
@_repo
@click.argument("result", required=False, type=click.Path(path_type=Path))
def apply(repo: Path, result: Path | None) -> None:
    """Applies the last verified patch (or the one of the result folder RESULT) to your files.

    Also what a turn of `whimbrel run` changed, which nothing has verified.

    Refuses when the tree is not the one the patch was verified on. Your index is not touched.
    """
    import asyncio

    from ..fix.apply import apply_result

    repository, paths = asyncio.run(apply_result(repo, result))
    click.echo(f"applied to {repository}: {', '.join(paths)}")
    click.echo("take it back with: whimbrel undo")


@click.command("undo", short_help="Take the last applied patch back.")
@_repo
def undo(repo: Path) -> None:
    """Takes back the patch that `whimbrel apply` (or `fix-issue --apply`) put into your files.

    Refuses, and changes nothing, when the patched lines have been edited since.
    """
    import asyncio

    from ..fix.apply import undo_last

    repository, when = asyncio.run(undo_last(repo))
    click.echo(f"took back the patch applied to {repository} at {when}")
