"""``whimbrel engine info``: what a checkpoint folder holds and what it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...engine.cluster.machines import shown_bytes
from .engine import need_native

if TYPE_CHECKING:
    from ...engine.kimi.inspect import Inspection

INCOMPLETE = 4
"""Exit code where something is missing."""


@click.command("info")
@click.argument("folder", type=Path, metavar="DIR")
@click.option("--chat-template", type=Path, metavar="FILE", help="In place of the checkpoint's own files.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(folder: Path, chat_template: Path | None, as_json: bool) -> None:
    """Config, tensors, tokenizer, chat format and licence of DIR. Exit code 4: something is missing."""
    need_native()
    from ...engine.kimi.inspect import inspect_checkpoint
    from ...sandbox.base.errors import UsageError

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="give the folder that holds config.json")
    found = inspect_checkpoint(folder, chat_template)
    if as_json:
        click.echo(json.dumps(_data(found), indent=1))
    else:
        _show(found)
    if found.missing:
        raise SystemExit(INCOMPLETE)


def _show(found: Inspection) -> None:
    config = found.config
    if config is not None:
        full = len(config.full_layers)
        click.echo(
            f"{config.family}: {config.num_layers} layers ({config.num_layers - full} linear, {full} full "
            f"attention), width {config.hidden}, {config.max_context:,} tokens of context"
        )
        if config.moe is not None:
            click.echo(f"experts     {config.moe.num_experts}, {config.moe.top_k} per token")
    if found.files:
        sizes = ", ".join(
            f"{shown_bytes(size)} {kind}" for kind, size in sorted(found.bytes_by_dtype.items())
        )
        click.echo(f"tensors     {found.tensors:,} in {found.files} files: {sizes}")
        click.echo(f"parameters  {found.parameters:,} ({found.active:,} active per token)")
    if found.tokens is not None:
        click.echo(f"tokenizer   {found.tokens:,} tokens; chat by {found.format}")
    if found.licence is not None:
        asked = "has to be accepted (whimbrel licence)" if found.licence.needs_acceptance else "free to load"
        click.echo(f"licence     {found.licence.name}; {asked}")
    if found.golden:
        click.echo("golden      numbers to check against are here (whimbrel engine verify)")
    for note in found.notes:
        click.echo(f"note: {note}")
    for each in found.missing:
        click.echo(f"missing: {each}")


def _data(found: Inspection) -> dict[str, object]:
    config, licence = found.config, found.licence
    return {
        "folder": str(found.folder),
        "family": config.family if config else None,
        "layers": config.num_layers if config else None,
        "max_context": config.max_context if config else None,
        "files": found.files,
        "tensors": found.tensors,
        "parameters": found.parameters,
        "active_parameters": found.active,
        "bytes": dict(found.bytes_by_dtype),
        "experts_packed": found.packed,
        "tokens": found.tokens,
        "licence": licence.name if licence else None,
        "licence_needs_acceptance": licence.needs_acceptance if licence else None,
        "golden": found.golden,
        "notes": found.notes,
        "missing": found.missing,
    }
