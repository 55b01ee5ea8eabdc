"""``whimbrel trust``: agree to what a repository configures, or take that back."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .shared import path_given, repository_top

if TYPE_CHECKING:
    from ..guidance.source import Source


@click.command("trust", short_help="Agree to what a repository configures, or take that back.")
@click.option(
    "--repo", metavar="PATH", callback=path_given, default=".", help="The repository (default: here)."
)
@click.option("--list", "show", is_flag=True, help="What was agreed to, in every repository.")
@click.option("--revoke", is_flag=True, help="Take everything agreed to in this repository back.")
@click.option("--yes", "-y", is_flag=True, help="Agree without being asked.")
def command(repo: Path, show: bool, revoke: bool, yes: bool) -> None:
    """Shows what this repository would run or tell the agent, and asks whether to obey it.

    The answer holds for exactly this content of this repository; a change asks again.
    """
    from ...sandbox.base.errors import PermissionDenied
    from ..permissions.steering import KINDS, MEANING, find_steering
    from ..trust import TrustStore, remember_trust

    if show and revoke:
        raise click.UsageError("give --list or --revoke, not both")
    if show:
        _list(TrustStore())
        return
    top = repository_top(repo)
    store = TrustStore()
    if revoke:
        click.echo("trust taken back" if store.forget(top) else "nothing was trusted here")
        return
    found = [each for kind in KINDS if (each := find_steering(top, kind)).files or each.refused]
    for each in found:
        known = store.is_trusted(top, each.digest)
        click.echo(f"{each.kind}: {MEANING[each.kind]}{' (trusted)' if known else ''}")
        for name in sorted(each.files):
            click.echo(f"  {_printable(name)}")
        for name in each.refused:
            click.echo(f"  {_printable(name)}  (never used: it leads outside, is too large or unreadable)")
    guidance = _guidance(top)
    new = [each for each in found if each.digest and not store.is_trusted(top, each.digest)]
    if not new and (not guidance.digest or store.is_trusted(top, guidance.digest)):
        click.echo("nothing here to trust" if not found else "all of it is trusted")
        return
    if not yes:
        if not sys.stdin.isatty():
            hint = "read the files, then pass --yes"
            raise PermissionDenied("nobody is there to ask about this trust", hint=hint)
        if not click.confirm("Obey this, as it is now?", default=False):
            raise PermissionDenied("not trusted")
    remember_trust(top, [each.kind for each in new])
    # What a run gives the model is asked about as one, imports of instruction files included.
    store.remember(top, guidance.digest, about={"kind": "guidance", "files": list(guidance.files)})
    click.echo(f"trusted: {', '.join([each.kind for each in new] or ['guidance'])}")


def _guidance(top: Path) -> Source:
    from ..guidance.source import instruction_folders, survey
    from ..guidance.tree import WorkingTree

    async def look() -> Source:
        tree = WorkingTree(top)
        return await survey(tree, await instruction_folders(top, tree))

    return asyncio.run(look())


def _list(store: Any) -> None:
    entries = store.listed()
    for path, digest, about in entries:
        files = ", ".join(map(str, about.get("files", []))) or "(files not noted)"
        click.echo(f"{path}  {about.get('kind', 'recipe')}  {digest[:12]}  {_printable(files)}")
    if not entries:
        click.echo("nothing is trusted", err=True)


def _printable(text: str) -> str:
    escaped = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return "".join(escaped)
