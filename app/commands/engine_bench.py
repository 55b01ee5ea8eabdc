"""``whimbrel engine bench``: how fast a checkpoint runs on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from .engine import need_native

if TYPE_CHECKING:
    from ...engine.kimi.bench import BenchReport, Decoding
    from ...engine.kimi.pool import CacheKind


@click.command("bench")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--prompt", type=click.IntRange(1), default=512, show_default=True, help="Tokens to read.")
@click.option("--decode", type=click.IntRange(1), default=32, show_default=True, help="Tokens to write.")
@click.option(
    "--batch", type=click.IntRange(1, 1024), default=4, show_default=True, help="Sequences decoded together."
)
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="Runs; the best counts.")
@click.option(
    "--step-tokens", "step", type=click.IntRange(1), default=512, show_default=True,
    help="Tokens of the prompt in one step.",
)  # fmt: skip
@click.option(
    "--dense", type=click.Choice(["stored", "int8"]), default="stored", show_default=True,
    help="The dense matrices as stored, or rounded to eight bits while loading.",
)  # fmt: skip
@click.option(
    "--cache", type=click.Choice(["f32", "bf16", "fp8"]), default="bf16", show_default=True,
    help="How cached rows are held.",
)  # fmt: skip
@click.option("--expert-cache", type=click.IntRange(1), metavar="BYTES", help="Read experts through a cache.")
@click.option("--accept-licence", is_flag=True, help="Accept the licence of the checkpoint now.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    folder: Path,
    dense: str,
    cache: str,
    expert_cache: int | None,
    accept_licence: bool,
    as_json: bool,
    **sizes: Any,
) -> None:
    """Load the checkpoint in DIR and measure it on this machine, in one process.

    Tokens are random, so experts are chosen as widely as they can be. The speed of the memory is measured in
    the same run; compare shares of it rather than times when other programs are busy.
    """
    need_native()
    from ...engine.kimi.load import LoadOptions, load_runner

    # After `load`, which decides about numpy's threads before numpy is imported.
    from ...engine.kimi.bench import BenchOptions, as_json as plain, bench  # isort: skip
    from ..licences import require_licence

    require_licence(folder, accept=accept_licence)
    options = LoadOptions(
        dense="int8" if dense == "int8" else "stored",
        cache=cast("CacheKind", cache),
        expert_cache=expert_cache,
    )
    runner = load_runner(folder, options)
    try:
        for warning in runner.warnings:
            click.echo(f"whimbrel: {warning}", err=True)
        report = bench(runner, BenchOptions(**sizes))
    finally:
        runner.close()
    if as_json:
        click.echo(json.dumps({**plain(report), "dense": dense, "cache": cache}, indent=2))
    else:
        _show(report)


def _show(report: BenchReport) -> None:
    threads = f", {report.threads} threads" if report.threads else ""
    click.echo(f"{report.family}, kernels {report.variant}{threads}; the best of {report.repeat} runs")
    click.echo(
        f"prompt       {report.prefill_tokens_per_s:,.1f} tokens/s ({report.prompt} tokens); first token "
        f"after {report.first_token_s:.3f} s, in the first run {report.first_run_s:.3f} s"
    )
    for each in report.decoding:
        what = "1 sequence" if each.batch == 1 else f"{each.batch} sequences"
        click.echo(
            f"decode       {each.tokens_per_s:,.1f} tokens/s, {what}; a step takes {each.step_ms:.2f} ms"
        )
        click.echo(f"  a token reads {_size(each.bytes_per_token)}: {_parts(each)}")
        click.echo(f"  {_share(each, report.variant)}")
    if report.read_speed is not None:
        click.echo(f"memory       reads {report.read_speed / 1e9:.1f} GB/s, measured in this run")
    if report.resident is not None and report.resident_own is not None:
        mapped = report.resident - report.resident_own
        click.echo(f"process      {_size(report.resident_own)} of its own, {_size(mapped)} of mapped files")
    click.echo(f"page cache   {_size(report.cache_used)} in use at most")
    experts = report.experts
    if experts.streamed:
        asked = max(1, experts.hits + experts.misses)
        click.echo(
            f"experts      {100 * experts.hits / asked:.1f} % found in the cache, {experts.ahead:,} of "
            f"{experts.misses:,} reads done ahead, {_size(experts.bytes_read)} read"
        )
    elif experts.hits:
        click.echo(f"experts      mapped: the system keeps what fits ({experts.hits:,} uses)")


def _parts(each: Decoding) -> str:
    named = {
        "dense weights": each.weight_bytes,
        "experts": each.expert_bytes,
        "cached rows": each.cache_bytes,
        "state (read and written)": each.state_bytes,
    }
    return ", ".join(f"{_size(value)} {name}" for name, value in named.items() if value)


def _share(each: Decoding, variant: str) -> str:
    if each.memory_share is not None:
        return f"{100 * each.memory_share:.0f} % of the memory's reading speed"
    if variant == "numpy":
        return "the memory's reading speed is measured by the native kernels only"
    return "so little may stay in the processor's caches: no share of the memory's speed is given"


def _size(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count:.0f} B"
