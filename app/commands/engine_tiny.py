"""``whimbrel engine tiny``: a small random checkpoint, for tests and for trying things out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .engine import need_native


@click.command("tiny")
@click.argument("folder", type=Path, metavar="DIR")
@click.option("--family", type=click.Choice(["k3", "k31", "kimi-linear"]), default="k3", help="Which model.")
@click.option("--seed", type=int, default=0, help="Same seed, same files.  [default: 0]")
@click.option("--hidden", type=int, default=64, help="Width, a multiple of 32.  [default: 64]")
@click.option("--layers", type=int, default=5, help="[default: 5]")
@click.option("--experts", type=int, default=8, help="Routed experts of a layer.  [default: 8]")
@click.option("--shards", type=int, default=2, help="Files.  [default: 2]")
@click.option("--top-k", type=int, default=16, help="Keys an indexer selects (k31).  [default: 16]")
@click.option("--dtype", type=click.Choice(["bf16", "f32"]), default="bf16", help="Of what is not packed.")
@click.option(
    "--packed/--plain", default=None, help="Routed experts in MXFP4 or not.  [default: as released]"
)
@click.option("--wide", is_flag=True, help="Full attention as wide as in K3's release (50 MB a layer).")
@click.option("--vision", is_flag=True, help="With a vision tower (k3, k31).")
def command(folder: Path, seed: int, dtype: str, **options: Any) -> None:
    """Write a random checkpoint of the family to DIR: shards, config, tokenizer, chat files, licence."""
    need_native()
    from ...engine.kimi.safetensors_writer import writing
    from ...engine.kimi.tiny import TinyOptions, make_tiny
    from ...sandbox.base.errors import UsageError

    if seed < 0:
        raise UsageError("--seed is a number from 0")
    stored: Any = "F32" if dtype == "f32" else "BF16"
    with writing(folder):
        parameters = make_tiny(folder, TinyOptions(seed=seed, dtype=stored, **options))
    size = sum(path.stat().st_size for path in folder.iterdir())
    click.echo(f"{folder}: {parameters:,} random parameters, {size / 1e6:.1f} MB")
