"""``whimbrel engine verify``: the numbers of a checkpoint against golden ones."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from .engine import need_native

if TYPE_CHECKING:
    from ...engine.kimi.pool import CacheKind
    from ...engine.kimi.verify import Report

NOT_WITHIN = 4
"""Exit code where the numbers are not within tolerance."""


@click.command("verify")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override config.json or set a switch."
)
@click.option(
    "--tolerance", type=click.FloatRange(0, 1, min_open=True), default=2e-3, show_default=True,
    help="Largest absolute difference accepted (layer 0: 3e-5 of the largest value).",
)  # fmt: skip
@click.option("--expert-cache", type=click.IntRange(1), metavar="BYTES", help="Read experts through a cache.")
@click.option(
    "--dense", type=click.Choice(["stored", "int8"]), default="stored", show_default=True,
    help="Round the dense matrices to eight bits, to see what that costs.",
)  # fmt: skip
@click.option(
    "--cache", type=click.Choice(["f32", "bf16", "fp8"]), default="f32", show_default=True,
    help="How cached rows are held; rounded ones have a tolerance of their own.",
)  # fmt: skip
@click.option(
    "--tensor-parallel", type=click.IntRange(1), default=1, show_default=True,
    help="Share the heads and experts of each layer out among so many processes.",
)  # fmt: skip
@click.option(
    "--pipeline-parallel", type=click.IntRange(1), default=1, show_default=True,
    help="Cut the layers into so many stages, each on processes of its own.",
)  # fmt: skip
@click.option("--accept-licence", is_flag=True, help="Accept the licence of the checkpoint now.")
@click.option("--fast", is_flag=True, help="Round activations as in normal use, to see what that costs.")
def command(
    folder: Path,
    as_json: bool,
    sets: tuple[str, ...],
    tolerance: float,
    expert_cache: int | None,
    dense: str,
    cache: str,
    tensor_parallel: int,
    pipeline_parallel: int,
    accept_licence: bool,
    fast: bool,
) -> None:
    """Run the checkpoint in DIR and compare its numbers with the golden ones stored in it.

    Compared are the logits of the prompt and of token by token decoding, what comes out of every layer's
    attention and feed-forward part, the positions that sparse attention selects, and images (imageN.png).
    Exit code 0: all within tolerance; 4: not.
    """
    need_native()
    from ...engine.kimi.load import LoadOptions
    from ...engine.kimi.parallel.layout import Layout
    from ...engine.kimi.parallel.runner import load_laid_out
    from ...engine.kimi.verify import Report, verify
    from ...engine.kimi.vision.verify import has_golden_images, has_text_model, verify_images
    from ..licences import require_licence

    require_licence(folder, accept=accept_licence)
    images = verify_images(folder) if has_golden_images(folder) else []
    if images and not has_text_model(folder):
        report = Report(numbers=images)
        if as_json:
            click.echo(json.dumps({**report.as_json(), "model": "vision"}, indent=2))
        else:
            _show(report)
        sys.exit(0 if report.ok else NOT_WITHIN)
    kind = cast("CacheKind", cache)
    options = LoadOptions(
        sets=sets,
        exact=not fast,
        dense="int8" if dense == "int8" else "stored",
        cache=kind,
        expert_cache=expert_cache,
        check_scales=True,
    )
    runner = load_laid_out(folder, options, Layout(tensor_parallel, pipeline_parallel))
    try:
        for warning in runner.warnings:
            click.echo(f"whimbrel: {warning}", err=True)
        report = verify(runner, folder, tolerance, kind)
        report.numbers += images
        if as_json:
            stats = runner.source.stats
            counted = {
                "hits": stats.hits,
                "misses": stats.misses,
                "ahead": stats.ahead,
                "bytes": stats.bytes_read,
            }
            click.echo(
                json.dumps({**report.as_json(), "model": runner.config.family, "experts": counted}, indent=2)
            )
        else:
            _show(report)
    finally:
        runner.close()
    sys.exit(0 if report.ok else NOT_WITHIN)


def _show(report: Report) -> None:
    width = max(len(n.name) for n in report.numbers)
    click.echo(f"{'':{width}}  largest absolute  relative  tolerance")
    for n in report.numbers:
        state = "" if n.ok else "  NOT WITHIN"
        limit = f"{n.tolerance:9.0e}" if math.isfinite(n.tolerance) else "       no"
        click.echo(f"{n.name:{width}}  {n.absolute:16.2e}  {n.relative:8.1e}  {limit}{state}")
    for s in report.selections:
        if s.missing:
            state = "  NOT EQUAL" if s.judged else ""
            click.echo(f"{s.name:{width}}  {len(s.missing)} of {s.chosen} positions differ{state}")
        else:
            order = "same order" if s.same_order else "another order"
            click.echo(f"{s.name:{width}}  {s.chosen} positions equal, {order}")
    click.echo("within tolerance" if report.ok else "NOT within tolerance")
