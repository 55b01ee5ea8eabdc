"""``whimbrel engine quantize``: a plain checkpoint's experts to MXFP4."""

from __future__ import annotations

from pathlib import Path

import click

from .engine import need_native


@click.command("quantize")
@click.argument("source", type=Path, metavar="SRC")
@click.argument("target", type=Path, metavar="DST")
@click.option("--shard-size", default="4GB", metavar="SIZE", help="Of the files written.  [default: 4GB]")
@click.option("--threads", type=click.IntRange(1, 256), help="Matrices at the same time.  [default: CPUs]")
@click.option("--accept-licence", is_flag=True, help="Accept the licence of SRC now.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    source: Path, target: Path, shard_size: str, threads: int | None, accept_licence: bool, quiet: bool
) -> None:
    """Write the checkpoint SRC to DST with its routed experts in MXFP4; everything else is copied.

    A run that was interrupted goes on when the same command is given again. How far every matrix moved is
    in DST/quantize-report.jsonl.
    """
    import os

    need_native()
    from ...engine.cluster.machines import parse_size, shown_bytes
    from ...engine.kimi.quantize import REPORT, quantise_checkpoint
    from ...engine.kimi.safetensors_writer import writing
    from ...sandbox.base.errors import UsageError
    from ..licences import require_licence

    require_licence(source, accept=accept_licence)
    limit = parse_size(shard_size)
    if limit < 1000:
        raise UsageError(f"--shard-size {shard_size} is too small")

    def progress(written: int, total: int) -> None:
        if not quiet:
            click.echo(f"{shown_bytes(written)} of {shown_bytes(total)}", err=True)

    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with writing(target):
        done = quantise_checkpoint(
            source, target, shard_bytes=limit, threads=threads or processors, progress=progress
        )
    again = f", {done.resumed} of them from an earlier run" if done.resumed else ""
    click.echo(
        f"{target}: {shown_bytes(done.bytes)} in {done.shards} files{again} "
        f"(before: {shown_bytes(done.source_bytes)})"
    )
    worst = done.worst
    if worst is not None:
        click.echo(
            f"{len(done.errors):,} matrices rounded, relative error {done.mean_rms:.4f} on average, "
            f"{worst.rms:.4f} at most ({worst.name}); all of them in {target / REPORT}"
        )
