"""``whimbrel engine plan``: what a model needs and whether given machines hold it, by its config alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...engine.cluster.machines import shown_bytes

if TYPE_CHECKING:
    from ...engine.cluster.machines import Cluster
    from ...engine.cluster.plan import Layout, Request, Weights
    from ...engine.kimi.config import KimiConfig

_NAMES = {"k3": "Kimi K3", "k31": "Kimi K3.1", "kimi-linear": "Kimi-Linear"}


@click.command("plan")
@click.option(
    "--config", "path", metavar="FILE", required=True, type=Path, help="config.json, or its folder."
)
@click.option("--gpus", default="cpu", metavar="NxKIND", help="8xH200, 16xB300, 4xMYCARD@96GB, or cpu.")
@click.option("--ram", metavar="SIZE", help="Main memory: 64GB, 1.5TB (binary units).")
@click.option("--disk", metavar="KIND", help="nvme, sata, hdd or 3GB/s: experts may stay there.")
@click.option(
    "--memory-bandwidth", default="60GB/s", metavar="RATE", help="Of main memory.  [default: 60GB/s]"
)
@click.option("--context", metavar="TOKENS", help="Context length to plan for: 128k, 1M.  [default: 128k]")
@click.option("--sequences", default=1, type=click.IntRange(1, 100_000), help="Sequences at the same time.")
@click.option(
    "--cache", type=click.Choice(["bf16", "fp8", "fp8-sparse"]), default="bf16", help="Latent cache."
)
@click.option("--experts", type=click.Choice(["mxfp4", "bf16"]), default="mxfp4", help="Routed experts.")
@click.option("--dense", type=click.Choice(["bf16", "int8"]), default="bf16", help="Everything but experts.")
@click.option("--no-vision", is_flag=True, help="Leave the vision tower out.")
@click.option("--json", "as_data", is_flag=True, help="Everything as JSON, sizes in bytes.")
def command(
    path: Path,
    gpus: str,
    ram: str | None,
    disk: str | None,
    memory_bandwidth: str,
    context: str | None,
    sequences: int,
    cache: Any,
    experts: Any,
    dense: Any,
    no_vision: bool,
    as_data: bool,
) -> None:
    """Parameters, bytes, caches, a layout, and whether it fits. Nothing is loaded or downloaded."""
    from ...engine.cluster.machines import parse_cluster, parse_disk, parse_size, parse_tokens
    from ...engine.cluster.plan import Request, on_cpu, on_gpus, weigh
    from ...engine.kimi.config import load_config
    from ...sandbox.base.errors import UsageError

    config = load_config(path)
    cluster = parse_cluster(gpus)
    tokens = parse_tokens(context) if context else min(131_072, config.max_context)
    if tokens > config.max_context:
        raise UsageError(f"--context {context} is more than the model's {config.max_context} tokens")
    request = Request(tokens, sequences, cache, experts, dense, vision=not no_vision)
    memory = parse_size(ram, binary=True) if ram else None
    rate = parse_disk(disk) if disk else None
    weights = weigh(config, request)
    layout: Layout | None = None
    if cluster is not None:
        layout = on_gpus(config, cluster, request, spare=memory or (2**62 if rate else 0))
    elif memory is not None:
        layout = on_cpu(config, request, ram=memory, disk=rate, bandwidth=parse_disk(memory_bandwidth))
    if as_data:
        click.echo(json.dumps(_as_json(config, weights, layout, request), indent=1))
        return
    for warning in config.warnings:
        click.echo(f"note: {warning}", err=True)
    _model(config, weights, request)
    _caches(config, request)
    if layout is not None:
        _layout(config, cluster, layout, request, memory, rate)
    elif cluster is None:
        click.echo("\nGive --gpus 8xH200, or --ram 64GB --disk nvme, to see whether it fits.")


def _model(config: KimiConfig, weights: Weights, request: Request) -> None:
    full = len(config.full_layers)
    click.echo(
        f"{_NAMES[config.family]}: {config.num_layers} layers ({config.num_layers - full} linear attention, "
        f"{full} latent attention{' with an indexer' if config.dsa else ''})"
    )
    total = weights.text + weights.vision
    beside = f" (with vision; {weights.text / 1e9:,.2f} B without)" if weights.vision else ""
    click.echo(f"parameters  {total / 1e9:,.2f} B{beside}")
    click.echo(f"active      {weights.active / 1e9:,.2f} B per token (no embedding table, no vision)")
    seeing = weights.stored_text + weights.stored_vision
    beside = f" (text; {shown_bytes(seeing)} with vision)" if weights.vision else ""
    click.echo(f"release     {shown_bytes(weights.stored_text)}{beside}")
    experts = "MXFP4" if request.experts != "bf16" else "bfloat16"
    rest = "8-bit integers" if request.dense == "int8" else "bfloat16"
    click.echo(
        f"planned     {shown_bytes(weights.total_bytes)} (routed experts in {experts}, the rest in {rest})\n"
    )
    for part, count in sorted(weights.parameters_by_part.items(), key=lambda each: -each[1]):
        click.echo(f"  {part:<20}{count / 1e9:>12,.3f} B {shown_bytes(weights.bytes_by_part[part]):>12}")
    click.echo(
        f"\nread per token, without batching: {shown_bytes(weights.expert_read)} of experts, "
        f"{shown_bytes(weights.dense_read)} of the rest"
    )


def _caches(config: KimiConfig, request: Request) -> None:
    from ...engine.cluster.plan import Cache, cache_sizes

    shown = _contexts(config, request)
    click.echo("\ncaches of one sequence" + "".join(f"{tokens:>13,}" for tokens in shown))
    kinds: tuple[Cache, ...] = ("bf16", "fp8", "fp8-sparse")
    for kind in kinds:
        sizes = cache_sizes(config, kind)
        row = "".join(f"{_binary(tokens * sizes.latent):>13}" for tokens in shown)
        click.echo(f"  {'latents ' + kind:<20}{row}  ({sizes.latent:,} B a token)")
    if config.dsa is not None:
        for kind in ("bf16", "fp8"):
            sizes = cache_sizes(config, kind)
            row = "".join(f"{_binary(tokens * sizes.indexer):>13}" for tokens in shown)
            click.echo(f"  {'indexer keys ' + kind:<20}{row}  ({sizes.indexer:,} B a token)")
    sizes = cache_sizes(config, request.cache)
    if sizes.fixed:
        click.echo(
            f"  linear attention     {sizes.state / 1e6:,.1f} MB of state and "
            f"{sizes.convolution / 1e6:,.1f} MB of convolution inputs, whatever the length"
        )


def _layout(
    config: KimiConfig,
    cluster: Cluster | None,
    layout: Layout,
    request: Request,
    memory: int | None,
    rate: float | None,
) -> None:
    where = (
        f"{cluster.count} x {cluster.device.name}"
        if cluster
        else f"CPU with {_binary(memory or 0)} of memory"
    )
    many = f" in {request.sequences} sequences each" if request.sequences > 1 else ""
    verdict = "fits" if layout.fits else "does not fit"
    click.echo(f"\n{where}: {verdict} at {request.context:,} tokens{many} ({request.cache} cache)")
    if layout.tensor and cluster is not None:
        click.echo(
            f"  layout           tensor parallel {layout.tensor} x pipeline {layout.pipeline}, experts over "
            f"{layout.expert} GPUs of a stage; layers {' + '.join(map(str, layout.stages))}"
        )
    if layout.usable:
        unit = "of each GPU" if cluster else "of memory"
        click.echo(
            f"  fullest place    {shown_bytes(layout.weights)} of weights + "
            f"{shown_bytes(layout.cache)} of caches, {shown_bytes(layout.usable)} {unit} usable"
        )
    if layout.streamed:
        click.echo(f"  read from outside {shown_bytes(layout.streamed)} of experts")
    if layout.largest_context:
        click.echo(f"  largest context  {layout.largest_context:,} tokens{many}")
    if layout.fits and layout.seconds_per_token:
        seconds = layout.seconds_per_token
        click.echo(
            f"  reading alone    {seconds * 1000:,.1f} ms a token for one sequence "
            f"({1 / seconds:,.2f} tokens/s at most)"
        )
    if layout.remark:
        click.echo(f"  note             {layout.remark}")
    if not layout.fits:
        _what_would(config, cluster, request, memory or 0, rate)


def _what_would(
    config: KimiConfig, cluster: Cluster | None, request: Request, memory: int, rate: float | None
) -> None:
    from dataclasses import replace

    from ...engine.cluster.plan import memory_needed, smallest_that_fits

    if cluster is not None:
        grown = smallest_that_fits(config, cluster, request)
        more = f"{grown.count}x{grown.device.name}; or " if grown is not None else ""
        click.echo(f"  what would       {more}--ram SIZE or --disk nvme for the experts")
        return
    choices = [(request, rate is not None, "")]
    choices += [(request, True, "--disk nvme")] if rate is None else []
    smaller = replace(request, dense="int8", context=min(request.context, 8192))
    choices += [(smaller, True, f"--dense int8 --context {smaller.context} --disk nvme")]
    for asked, streaming, options in choices:
        needed = memory_needed(config, asked, disk=streaming)
        enough = "this memory is enough" if needed <= memory else f"{_binary(needed)} of memory"
        click.echo(f"  what would       {enough}{f' with {options}' if options else ''}")


def _as_json(config: KimiConfig, weights: Weights, layout: Layout | None, request: Request) -> dict[str, Any]:
    """The plan as plain data; all sizes in bytes."""
    from ...engine.cluster.plan import Cache, cache_sizes

    kinds: tuple[Cache, ...] = ("bf16", "fp8", "fp8-sparse")
    sizes = {kind: cache_sizes(config, kind) for kind in kinds}
    return {
        "family": config.family,
        "layers": config.num_layers,
        "full_attention_layers": len(config.full_layers),
        "parameters": {
            "total": weights.text + weights.vision,
            "text": weights.text,
            "vision": weights.vision,
            "active": weights.active,
            "by_part": dict(weights.parameters_by_part),
        },
        "bytes": {
            "released_text": weights.stored_text,
            "released": weights.stored_text + weights.stored_vision,
            "planned": weights.total_bytes,
            "by_part": dict(weights.bytes_by_part),
            "read_per_token": {"experts": weights.expert_read, "rest": weights.dense_read},
        },
        "caches": {
            kind: {
                "per_token": {"latent": each.latent, "indexer": each.indexer},
                "fixed": {"state": each.state, "convolution": each.convolution},
                "at": {str(tokens): each.at(tokens) for tokens in _contexts(config, request)},
            }
            for kind, each in sizes.items()
        },
        "request": {
            "context": request.context,
            "sequences": request.sequences,
            "cache": request.cache,
            "experts": request.experts or "mxfp4",
            "dense": request.dense,
        },
        "layout": None
        if layout is None
        else {
            "tensor_parallel": layout.tensor,
            "pipeline_parallel": layout.pipeline,
            "expert_parallel": layout.expert,
            "stages": list(layout.stages),
            "weights": layout.weights,
            "cache": layout.cache,
            "usable": layout.usable,
            "streamed": layout.streamed,
            "fits": layout.fits,
            "largest_context": layout.largest_context,
            "seconds_per_token": layout.seconds_per_token,
            "remark": layout.remark,
        },
    }


def _contexts(config: KimiConfig, request: Request) -> list[int]:
    from ...engine.cluster.plan import CONTEXTS

    return sorted({tokens for tokens in CONTEXTS if tokens <= config.max_context} | {request.context})


def _binary(count: float) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"
