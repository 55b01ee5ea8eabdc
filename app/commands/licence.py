"""``whimbrel licence``: the terms of model weights, and whether they were accepted."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.group("licence", invoke_without_command=True)
@click.pass_context
def group(ctx: click.Context) -> None:
    """Show, accept or withdraw acceptance of the licence that model weights come under.

    Whimbrel itself is Apache-2.0. Weights have terms of their own; whoever loads them takes those on.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show)


@group.command()
@click.argument("folder", required=False, type=Path, metavar="[DIR]")
@click.option("--text", is_flag=True, help="The licence file itself.")
def show(folder: Path | None, text: bool) -> None:
    """What the checkpoint in DIR comes under; without DIR, the Kimi K3 terms and what was accepted."""
    from ...engine.cluster.licence import QUESTIONS, SUMMARY, licence_of
    from ...sandbox.base.errors import UsageError
    from ..licences import LicenceStore

    accepted = LicenceStore().accepted()
    if folder is None:
        if text:
            raise UsageError("--text needs the folder of a checkpoint")
        click.echo(SUMMARY)
        _questions(QUESTIONS)
        for digest, about in sorted(accepted.items()):
            name, where = _printable(about.get("name", "")), _printable(about.get("checkpoint", ""))
            click.echo(f"accepted {about.get('when', '')}: {name}, {where} ({digest[:12]})")
        if not accepted:
            click.echo("No licence has been accepted yet.")
        return
    licence = licence_of(_folder(folder))
    if text:
        if licence.file is None:
            raise UsageError(f"{folder} has no licence file")
        click.echo(_printable(licence.file.read_text(encoding="utf-8", errors="replace")))
        return
    click.echo(f"{folder}: {licence.name}")
    if licence.file is not None:
        click.echo(f"text: {licence.file} (SHA-256 {licence.digest[:12]})")
    if licence.kind == "Kimi K3":
        click.echo(f"\n{SUMMARY}")
        _questions(QUESTIONS)
    if not licence.needs_acceptance:
        click.echo("Nothing has to be accepted.")
    else:
        known = accepted.get(licence.digest)
        click.echo(f"accepted {known.get('when', '')}" if known else "not accepted")


@group.command()
@click.argument("folder", type=Path, metavar="DIR")
@click.option("--yes", "-y", is_flag=True, help="Accept without being asked.")
def accept(folder: Path, yes: bool) -> None:
    """Accept what the checkpoint in DIR comes under; remembered for exactly this text."""
    from ...engine.cluster.licence import QUESTIONS, SUMMARY, licence_of
    from ...sandbox.base.errors import PermissionDenied
    from ..licences import LicenceStore

    licence = licence_of(_folder(folder))
    store = LicenceStore()
    if not licence.needs_acceptance:
        click.echo(f"{folder}: {licence.name}; nothing has to be accepted")
        return
    if licence.digest in store.accepted():
        click.echo(f"{folder}: {licence.name}, accepted before")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise PermissionDenied(
                "nobody is there to ask about this licence", hint="read it, then pass --yes"
            )
        if licence.kind == "Kimi K3":
            click.echo(SUMMARY)
            _questions(QUESTIONS)
        click.echo(f"{licence.name}: {licence.file or 'there is no file; ask where you got the weights'}")
        if not click.confirm("Do you accept these terms?", default=False):
            raise PermissionDenied("the licence was not accepted")
    store.accept(licence.digest, licence.name, folder)
    click.echo(f"{folder}: {licence.name} accepted")


@group.command()
@click.argument("folder", required=False, type=Path, metavar="[DIR]")
@click.option("--all", "everything", is_flag=True, help="Every acceptance.")
def withdraw(folder: Path | None, everything: bool) -> None:
    """Take an acceptance back: loading asks again."""
    from ...engine.cluster.licence import licence_of
    from ...sandbox.base.errors import UsageError
    from ..licences import LicenceStore

    if (folder is None) != everything:
        raise UsageError("give DIR or --all")
    digest = None if folder is None else licence_of(_folder(folder)).digest
    taken = LicenceStore().withdraw(digest)
    click.echo(f"{taken} taken back" if taken else "nothing had been accepted")


def _folder(folder: Path) -> Path:
    from ...sandbox.base.errors import UsageError

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="give the folder that holds config.json")
    return folder


def _questions(questions: tuple[str, ...]) -> None:
    click.echo("What decides whether you need more than this licence:")
    for number, question in enumerate(questions, start=1):
        first, *rest = question.splitlines()
        click.echo("\n".join([f" {number}. {first}", *(f"    {line}" for line in rest)]))
    click.echo()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
