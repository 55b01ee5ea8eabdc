"""The commands of ``whimbrel session`` that change something: rewind, rename, import, delete, prune, sync."""

from __future__ import annotations

from pathlib import Path

import click

from ..sessions.export import one_line
from ..sessions.store import SessionStore
from .shared import settings_options


def _open() -> SessionStore:
    return SessionStore.open(notice=lambda text: click.echo(f"note: {text}", err=True))


@click.command()
@click.argument("session_id", metavar="SESSION")
def turns(session_id: str) -> None:
    """List messages and file states with their numbers (for --fork and rewind)."""
    from ..sessions.rewinding import turns as listed

    store = _open()
    for line in listed(store, store.find(session_id).id):
        text = one_line(line.text)
        back = "" if line.current else "  (taken back)"
        click.echo(f"{line.seq:>6}  {line.kind:9}  {text[:100]}{back}".rstrip())


@click.command()
@click.argument("session_id", metavar="SESSION")
@click.option(
    "--to", "to", type=click.IntRange(min=1), required=True, metavar="SEQ", help="The message to go back to."
)
@click.option("--files", "what", flag_value="files", help="Only the files.")
@click.option("--chat", "what", flag_value="chat", help="Only the conversation.")
@click.option("--both", "what", flag_value="both", default="both", help="Files and conversation (default).")
def rewind(session_id: str, to: int, what: str) -> None:
    """Take a session back to how it was after a message.

    Nothing is deleted: going back can be taken back in the same way. Your own files are not
    touched; the next `whimbrel run --resume` goes on from there.
    """
    from typing import cast

    from ..sessions.rewinding import What
    from ..sessions.rewinding import rewind as go_back

    click.echo(go_back(_open(), session_id, to, cast("What", what)))


@click.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("title")
def rename(session_id: str, title: str) -> None:
    """Give a session another title."""
    from ..sessions.keeping import rename as renamed

    info = renamed(_open(), session_id, title)
    click.echo(f"{info.id}  {one_line(info.title)}")


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
def search(words: tuple[str, ...], limit: int) -> None:
    """Find sessions by words in titles and messages."""
    store = _open()
    hits = store.search(" ".join(words), limit=limit)
    for hit in hits:
        where = f"{hit.session_id}@{hit.seq}" if hit.seq else hit.session_id
        click.echo(f"{where:30}  {one_line(hit.excerpt)[:160]}")
    if not hits:
        click.echo("nothing found", err=True)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--new-id", is_flag=True, help="Store it under a new id even if its own is free.")
def import_(file: Path, new_id: bool) -> None:
    """Take an exported session in (JSON lines; - for standard input).

    Every line is checked; nothing is stored unless all of it holds.
    """
    import sys

    from ...sandbox.base.errors import UsageError
    from ..sessions.importing import MAX_LINE_BYTES, import_session

    try:
        if str(file) == "-":
            made = import_session(
                _open(), iter(lambda: sys.stdin.buffer.readline(MAX_LINE_BYTES + 1), b""), new_id=new_id
            )
        else:
            if not file.is_file():
                raise UsageError(f"{file} is no file", hint="give an export of `whimbrel session export`")
            with file.open("rb") as stream:
                made = import_session(
                    _open(), iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), new_id=new_id
                )
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    for note in made.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"{made.id}  {made.events} events{'  (under a new id)' if made.new_id else ''}")


@click.command()
@click.argument("session_ids", metavar="SESSION...", nargs=-1, required=True)
def delete(session_ids: tuple[str, ...]) -> None:
    """Remove sessions and everything only they use."""
    from ..sessions.keeping import delete as removed

    store = _open()
    for info in [store.find(each) for each in session_ids]:
        removed(store, info.id)
        click.echo(f"deleted {info.id}")


@click.command()
@click.option(
    "--older-than",
    type=click.IntRange(min=1),
    metavar="DAYS",
    help="Last used longer ago. [sessions.keep_days]",
)
@click.option(
    "--max-size", type=click.IntRange(min=1), metavar="MIB", help="Then the longest unused, until all fit."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def prune(older_than: int | None, max_size: int | None, dry_run: bool) -> None:
    """Remove old sessions. Those that are being written stay."""
    from ...sandbox.base.errors import UsageError
    from ..config import load_settings
    from ..sessions.keeping import prune as pruned

    days = older_than if older_than is not None else load_settings().settings.sessions.keep_days
    if days is None and max_size is None:
        raise UsageError("give --older-than or --max-size", hint="or set sessions.keep_days")
    gone = pruned(
        _open(), older_than_s=None if days is None else days * 86400.0,
        max_bytes=None if max_size is None else max_size << 20, dry_run=dry_run,
    )  # fmt: skip
    for info, size in gone:
        done = "would delete" if dry_run else "deleted"
        click.echo(f"{done} {info.id}  {size >> 10} KiB  {one_line(info.title)[:60]}")
    click.echo(f"{len(gone)} sessions, {sum(size for _, size in gone) >> 10} KiB", err=True)


@click.command()
@click.option(
    "--all", "everything", is_flag=True, help="Every session that is over, not only those that wait."
)
@settings_options
def sync(everything: bool, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Copy closed sessions to sessions.mirror: those whose copy failed or is still to come."""
    import sys

    from ...sandbox.base.errors import ConfigError
    from ..config import load_settings
    from ..sessions.mirror import enqueue
    from ..sessions.mirror import sync as copied

    address = load_settings(profile=profile, overrides=overrides).settings.sessions.mirror
    if not address:
        raise ConfigError(
            "sessions.mirror is not set", hint="whimbrel config set sessions.mirror s3://bucket/prefix"
        )
    store = _open()
    if everything:
        for info in store.sessions():
            if info.status != "running":
                enqueue(store, info.id)
    results = copied(store, address)
    for each in results:
        click.echo(f"{each.session_id}  {each.problem or 'copied'}")
    if any(each.problem for each in results):
        sys.exit(ConfigError.exit_code)


COMMANDS = (turns, rewind, rename, search, import_, delete, prune, sync)
