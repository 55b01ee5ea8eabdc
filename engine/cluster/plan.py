"""How a model of the family would lie on given machines: arithmetic over its config, nothing is loaded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ..kimi.config import KimiConfig
from ..kimi.inventory import Tensor, active_parameters, is_packed, text_tensors, vision_tensors
from .machines import Cluster

Cache = Literal["bf16", "fp8", "fp8-sparse"]
Experts = Literal["mxfp4", "bf16"]
Dense = Literal["bf16", "int8"]

USABLE: Final = 0.92
"""Of a GPU's memory; the rest holds activations, communication buffers and the runtime."""
USABLE_RAM: Final = 0.90
PAGE: Final = 64
CONTEXTS: Final = (8_192, 32_768, 131_072, 262_144, 1_048_576)
_INT8_PARTS = frozenset(
    {"linear attention", "latent attention", "dense MLP", "shared experts", "latent projections", "head"}
)


@dataclass(frozen=True)
class Weights:
    """Parameters and bytes. ``stored`` counts the release's precision, ``bytes_by_part`` the planned one."""

    text: int
    vision: int
    active: int
    parameters_by_part: Mapping[str, int]
    bytes_by_part: Mapping[str, int]
    stored_text: int
    stored_vision: int
    expert_read: int
    """Bytes of routed experts that one token reads."""
    dense_read: int
    """Bytes of everything else that one token reads (not the embedding table)."""

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes_by_part.values())


@dataclass(frozen=True)
class Caches:
    """Bytes of one sequence: what every token adds, and what a sequence holds in any case."""

    latent: int
    indexer: int
    state: int
    convolution: int

    @property
    def per_token(self) -> int:
        return self.latent + self.indexer

    @property
    def fixed(self) -> int:
        return self.state + self.convolution

    def at(self, tokens: int) -> int:
        return self.fixed + tokens * self.per_token


@dataclass(frozen=True)
class Layout:
    """Where everything lies.

    Args:
        tensor, pipeline, expert: degrees of parallelism (expert = GPUs of a stage that share its experts).
        stages: layers per pipeline stage.
        weights: bytes of weights on the fullest GPU (on a CPU: in memory).
        usable: bytes that weights and caches may take there.
        fits: at the context and number of sequences asked for.
        largest_context: tokens, for that many sequences; 0 when not even the weights fit.
        streamed: bytes of experts that stay on disk and are read when asked for.
        seconds_per_token: floor for one sequence, from the bytes that must be read.
    """

    tensor: int
    pipeline: int
    expert: int
    stages: tuple[int, ...]
    weights: int
    cache: int
    usable: int
    fits: bool
    largest_context: int
    streamed: int = 0
    seconds_per_token: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Request:
    """What is asked of the machines."""

    context: int
    sequences: int = 1
    cache: Cache = "bf16"
    experts: Experts | None = None
    dense: Dense = "bf16"
    vision: bool = True


def weigh(config: KimiConfig, request: Request) -> Weights:
    packed = is_packed(config)
    planned = request.experts or "mxfp4"
    tensors = [*text_tensors(config)]
    tower = [*vision_tensors(config)]
    parameters: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for tensor in (*tensors, *(tower if request.vision else ())):
        parameters[tensor.part] += tensor.elements
        size[tensor.part] += _planned_bytes(tensor, planned, request.dense)
    moe = config.moe
    read = size["routed experts"] * moe.top_k // moe.num_experts if moe is not None else 0
    unread = size["routed experts"] + size["embedding"] + size["vision"]
    return Weights(
        text=sum(tensor.elements for tensor in tensors),
        vision=sum(tensor.elements for tensor in tower),
        active=active_parameters(config),
        parameters_by_part=parameters,
        bytes_by_part=size,
        stored_text=sum(tensor.stored_bytes(packed=packed) for tensor in tensors),
        stored_vision=sum(tensor.stored_bytes(packed=packed) for tensor in tower),
        expert_read=read,
        dense_read=sum(size.values()) - unread,
    )


def cache_sizes(config: KimiConfig, kind: Cache) -> Caches:
    """Per sequence, over all layers. The fp8 forms have float32 scales (one per 128 values, one per key)."""
    mla, kda, dsa = config.mla, config.kda, config.dsa
    full = len(config.full_layers)
    latent = indexer = 0
    if mla is not None:
        values, shared = mla.kv_lora_rank, mla.pe_dim
        latent = {
            "bf16": 2 * (values + shared),
            "fp8": values + shared,
            "fp8-sparse": values + 4 * math.ceil(values / 128) + 2 * shared,
        }[kind]
    if dsa is not None:
        indexer = 2 * dsa.head_dim if kind == "bf16" else dsa.head_dim + 4
    linear = config.num_layers - full
    state = convolution = 0
    if kda is not None:
        state = linear * kda.num_heads * kda.head_dim**2 * 4
        convolution = linear * (kda.conv_size - 1) * 3 * kda.width * 2
    return Caches(full * latent, (len(dsa.layers) if dsa else 0) * indexer, state, convolution)


def on_gpus(config: KimiConfig, cluster: Cluster, request: Request, spare: int = 0) -> Layout:
    """The best layout on these GPUs: one that fits, with as few pipeline stages as may be.

    Args:
        spare: bytes of main memory or disk that may hold experts for which the GPUs have no room.
    """
    choices = [
        _staged(config, cluster, request, pipeline)
        for pipeline in range(1, min(cluster.count, config.num_layers) + 1)
        if cluster.count % pipeline == 0 and _divides(config, cluster.count // pipeline, cluster)
    ]
    if not choices:
        heads = config.kda.num_heads if config.kda is not None else 0
        return Layout(
            0, 0, 0, (), 0, 0, 0, False, 0,
            remark=f"{cluster.count} GPUs divide neither the {heads} heads nor the layers evenly",
        )  # fmt: skip
    best = min(
        choices, key=lambda each: (not each.fits, each.pipeline if each.fits else -each.largest_context)
    )
    if best.fits:
        return best
    best = choices[0]
    lacking = best.weights + best.cache - best.usable
    experts = weigh(config, request).bytes_by_part.get("routed experts", 0)
    if 0 < lacking * cluster.count < min(experts, spare):
        # How fast that is depends on the link and on how often an expert is there already: no floor is given.
        return replace(
            best,
            weights=best.weights - lacking,
            streamed=lacking * cluster.count,
            fits=True,
            largest_context=request.context,
            seconds_per_token=None,
            remark="the experts that find no room in the GPUs are read from outside when they are asked for",
        )
    return best


def memory_needed(config: KimiConfig, request: Request, *, disk: bool) -> int:
    """Bytes of main memory below which `on_cpu` says that it does not fit."""
    low = on_cpu(config, request, ram=0, disk=1.0 if disk else None, bandwidth=1.0)
    return math.ceil((low.weights + low.cache) / USABLE_RAM)


def smallest_that_fits(config: KimiConfig, cluster: Cluster, request: Request) -> Cluster | None:
    """The smallest number of such GPUs that hold the request."""
    counts = [1, 2, 4, *range(8, 8 * 33, 8)]
    for count in counts:
        grown = Cluster(count, cluster.device)
        if count > cluster.count and on_gpus(config, grown, request).fits:
            return grown
    return None


def on_cpu(config: KimiConfig, request: Request, *, ram: int, disk: float | None, bandwidth: float) -> Layout:
    """In main memory, with the experts that find no room read from disk (``disk``: bytes per second)."""
    weights = weigh(config, request)
    usable = int(ram * USABLE_RAM)
    experts = weights.bytes_by_part.get("routed experts", 0)
    # Only what a token reads has to be there: the embedding table and the tower are mapped from the file.
    dense = weights.dense_read if disk is not None else weights.total_bytes - experts
    caches = cache_sizes(config, request.cache)
    cache = request.sequences * caches.at(request.context)
    # Streaming wants room for the experts of one layer's step, and of the next while they are read.
    layers = config.num_layers - (config.moe.first_dense if config.moe else 0)
    least = min(2 * weights.expert_read // max(layers, 1), experts) if disk is not None else experts
    resident = max(0, min(experts, usable - dense - cache))
    fits = dense + cache + least <= usable
    free = usable - dense - least - request.sequences * caches.fixed
    seconds = None
    remark = ""
    if fits:
        missing = 1 - resident / experts if experts else 0.0
        seconds = (weights.dense_read + weights.expert_read * (1 - missing)) / bandwidth
        if missing and disk is not None:
            seconds += weights.expert_read * missing / disk
            remark = (
                "the router is trained to use all experts alike: a cache hits about as often as it is large"
            )
    return Layout(
        1, 1, 1, (config.num_layers,), dense + (resident if fits else least), cache, usable, fits,
        _largest(free, caches.per_token * request.sequences, config.max_context),
        experts - resident if fits else 0, seconds, remark,
    )  # fmt: skip


def _planned_bytes(tensor: Tensor, experts: Experts, dense: Dense) -> int:
    if tensor.part == "routed experts":
        return tensor.stored_bytes(packed=experts == "mxfp4")
    if dense == "int8" and tensor.part in _INT8_PARTS and len(tensor.shape) == 2:
        return tensor.elements + 4 * tensor.shape[0]  # one float32 scale a row
    return tensor.stored_bytes(packed=False)


def _divides(config: KimiConfig, tensor: int, cluster: Cluster) -> bool:
    kda, mla, moe = config.kda, config.mla, config.moe
    parts = [each.num_heads for each in (kda, mla) if each is not None]
    parts += [moe.num_experts] if moe is not None else []
    return tensor <= cluster.device.linked and all(part % tensor == 0 for part in parts)


def _staged(config: KimiConfig, cluster: Cluster, request: Request, pipeline: int) -> Layout:
    tensor = cluster.count // pipeline
    per_layer = [0.0] * config.num_layers
    first = last = 0.0
    everything = [*text_tensors(config), *(vision_tensors(config) if request.vision else ())]
    for each in everything:
        size = _planned_bytes(each, request.experts or "mxfp4", request.dense) / (
            tensor if each.sharded else 1
        )
        if each.layer is not None:
            per_layer[each.layer] += size
        elif each.part in ("embedding", "vision"):
            first += size
        else:
            last += size
    stages = _split(per_layer, pipeline, first, last)
    usable = int(cluster.device.memory * USABLE)
    caches = cache_sizes(config, request.cache)
    full, linear = len(config.full_layers), config.num_layers - len(config.full_layers)
    heaviest = worst_cache = 0
    largest = config.max_context
    fits = True
    start = 0
    for number, count in enumerate(stages):
        layers = range(start, start + count)
        start += count
        weights = sum(per_layer[layer] for layer in layers)
        weights += first if number == 0 else 0
        weights += last if number == pipeline - 1 else 0
        with_latents = sum(layer in config.full_layers for layer in layers)
        # Every GPU of a stage holds the whole latents of its layers (all heads share them); states are split.
        grows = caches.per_token * with_latents / full if full else 0.0
        fixed = caches.fixed * (count - with_latents) / linear / tensor if linear else 0.0
        cache = request.sequences * (fixed + grows * request.context)
        free = usable - weights - request.sequences * fixed
        largest = min(largest, _largest(free, grows * request.sequences, config.max_context))
        fits = fits and weights + cache <= usable
        if weights + cache > heaviest + worst_cache:
            heaviest, worst_cache = int(weights), int(cache)
    weigh_all = weigh(config, request)
    read = weigh_all.expert_read + weigh_all.dense_read
    floor = read / (tensor * cluster.device.bandwidth) if cluster.device.bandwidth else None
    return Layout(
        tensor, pipeline, tensor, tuple(stages), heaviest, worst_cache, usable, fits, largest, 0, floor
    )


def _split(per_layer: list[float], stages: int, first: float, last: float) -> list[int]:
    """Layers per stage, the fullest stage as light as possible."""
    low, high = max(per_layer), sum(per_layer) + first + last
    best: list[int] = []
    for _ in range(50):
        limit = (low + high) / 2
        counts = _filled(per_layer, stages, first, last, limit)
        if counts:
            best, high = counts, limit
        else:
            low = limit
    return best or _filled(per_layer, stages, first, last, math.inf) or [len(per_layer)]


def _filled(per_layer: list[float], stages: int, first: float, last: float, limit: float) -> list[int]:
    """Greedy filling under a limit, every stage with a layer at least; empty when it does not work."""
    counts: list[int] = []
    load, count = first, 0
    for layer, size in enumerate(per_layer):
        left = len(per_layer) - layer
        needed = stages - len(counts) - 1
        full = load + size > limit or left <= needed
        if count and full:
            counts.append(count)
            load, count = 0.0, 0
        if load + size > limit:
            return []
        load, count = load + size, count + 1
    counts.append(count)
    return counts if len(counts) == stages and load + last <= limit else []


def _largest(free: float, per_token: float, limit: int) -> int:
    if free <= 0:
        return 0
    if per_token <= 0:
        return limit
    return min(limit, int(free / per_token) // PAGE * PAGE)


def as_json(config: KimiConfig, weights: Weights, layout: Layout | None, request: Request) -> dict[str, Any]:
    """The plan as plain data; all sizes in bytes."""
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
    return sorted({tokens for tokens in CONTEXTS if tokens <= config.max_context} | {request.context})
