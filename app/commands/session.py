"""``whimbrel session``: look at recorded runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import click

from ..sessions.export import json_lines, markdown_events, markdown_head, one_line
from ..sessions.store import SessionInfo, SessionStore
from .session_keep import COMMANDS


@click.group()
def group() -> None:
    """Look at, search, rewind, export and import recorded runs."""


for _command in COMMANDS:
    group.add_command(_command)


@group.command("list")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
@click.option("--repo", type=click.Path(path_type=Path), help="Only sessions of this repository.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_sessions(limit: int, repo: Path | None, as_json: bool) -> None:
    """The recorded sessions, newest first."""
    store = _open()
    sessions = store.sessions(None if repo else limit)
    if repo:
        wanted = str(repo.resolve())
        sessions = [info for info in sessions if info.repository == wanted][:limit]
    if as_json:
        import json
        from dataclasses import asdict

        _write(json.dumps(asdict(info)) + "\n" for info in sessions)
    elif sessions:
        _write(_table(sessions))
    else:
        where = f" of {repo}" if repo else ""
        click.echo(
            f"no sessions{where} are recorded in {store.directory}; `whimbrel fix-issue` makes one", err=True
        )


@group.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--follow", "-f", is_flag=True, help="Keep showing new events until the session ends.")
def show(session_id: str, follow: bool) -> None:
    """The transcript of a session as Markdown.

    SESSION is its id, or a unique beginning of it.
    """
    store = _open()
    info = store.find(session_id)
    last = 0

    def fresh() -> Iterator[str]:
        nonlocal last
        for event in store.events(info.id, after=last):
            last = event.seq
            yield from markdown_events([event])

    _write([markdown_head(info)])
    _write(fresh())
    while follow and store.find(info.id).status == "running":
        time.sleep(0.3)
        _write(fresh())
    if follow:
        _write(fresh())


@group.command()
@click.argument("session_id", metavar="SESSION")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown", "html"]),
    default="jsonl",
    show_default=True,
    help="Complete for programs, or a transcript or a page for people.",
)
@click.option("--blobs", is_flag=True, help="Include complete outputs (jsonl only).")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="File instead of stdout."
)
def export(session_id: str, form: str, blobs: bool, output: Path | None) -> None:
    """Write a session as JSON lines, Markdown or one HTML page.

    SESSION is its id, or a unique beginning of it.
    """
    store = _open()
    info = store.find(session_id)
    if form == "jsonl":
        blocks = json_lines(store, info, blobs=blobs)
    elif form == "html":
        from ..sessions.html import html_page

        blocks = html_page(info, store.events(info.id))
    else:
        blocks = chain([markdown_head(info)], markdown_events(store.events(info.id)))
    if output is None:
        _write(blocks)
        return
    from ...sandbox.base.errors import UsageError
    from ...sandbox.base.files import atomic_write

    data = "".join(blocks).encode("utf-8", "backslashreplace")
    try:
        atomic_write(output, data)
    except OSError as error:
        raise UsageError(
            f"cannot write --output {output}: {error.strerror}", hint="give a file in a folder that exists"
        ) from error
    click.echo(f"wrote {output}", err=True)


def _open() -> SessionStore:
    return SessionStore.open(notice=lambda text: click.echo(f"note: {text}", err=True))


def _write(blocks: Iterable[str]) -> None:
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - closed before the start
        return
    # Bytes, because a terminal's encoding must not decide whether a transcript can be shown.
    for block in blocks:
        sys.stdout.buffer.write(block.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _table(sessions: list[SessionInfo]) -> Iterable[str]:
    rows = [
        (
            info.id,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created)),
            one_line(info.status),
            str(info.events),
            one_line(Path(info.repository).name or info.repository),
            one_line(info.title),
        )
        for info in sessions
    ]
    rows.insert(0, ("SESSION", "STARTED", "STATUS", "EVENTS", "REPOSITORY", "TITLE"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        title = row[5] if len(row[5]) <= 60 else row[5][:59] + "…"
        yield "  ".join([*cells, title]).rstrip() + "\n"
