"""The native engine behind the server: a checkpoint folder that answers many requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from ...sandbox.base.errors import ModelError
from ..chat import Capabilities, ImagePart, ModelNotice, OpaqueReceived, StepDiscarded, Usage
from ..scheduling.metrics import Metrics
from ..scheduling.request import Closing, QueueFull
from ..serve.backend import Busy, Figure, GenerationEvent, GenerationRequest, OutOfOrder, Unsupported
from .answering import Answering
from .opening import Local, resolve_folder
from .runner import KimiRunner

_TEMPLATE = {
    "add_generation_prompt": True, "clear_thinking": False, "continue_final_message": False,
    "preserve_thinking": True, "tokenize": False,
}  # fmt: skip
"""What may stand in ``chat_template_kwargs``, with the value that holds anyway (old thinking is kept)."""


class NativeBackend:
    """Implements Backend."""

    def __init__(self, local: Local, names: Sequence[str] = ()) -> None:
        self._local = local
        self._names = list(dict.fromkeys([*(names or [local.folder.name]), local.name]))
        self._answering: Answering | None = None

    @classmethod
    def open(cls, name: str, names: Sequence[str], environ: Mapping[str, str]) -> NativeBackend:
        """The model of ``kimi:NAME``; nothing is loaded yet.

        Raises:
            ConfigError: see `resolve_folder`.
        """
        return cls(resolve_folder(name, environ), names)

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def context_window(self) -> int:
        return self._loaded.window

    @property
    def max_concurrent(self) -> int | None:
        return self._local.batch if self._answering is None else self._answering.options.limits.batch

    @property
    def capabilities(self) -> Capabilities:
        answering = self._answering
        thinks = None if answering is None else answering.thinks
        sees = None if answering is None else answering.sees_images
        return Capabilities(
            tools=True,
            parallel_tools=True,
            images=sees,
            reasoning=thinks,
            effort=thinks,
            deterministic=self._local.exact,
        )

    @property
    def notices(self) -> Sequence[str]:
        return () if self._answering is None else self._answering.notices

    async def start(self) -> None:
        if self._answering is None:
            self._answering = await asyncio.to_thread(self._local.load)

    def check(self, request: GenerationRequest) -> None:
        images = any(isinstance(part, ImagePart) for message in request.messages for part in message.parts)
        if images and not self._loaded.sees_images:
            raise Unsupported("messages", "this model cannot see images")
        if request.structure is not None and request.structure.kind == "grammar":
            raise Unsupported("structured_outputs.grammar", "not by this backend")
        if request.thinking_budget is not None and not self._loaded.thinks:
            raise Unsupported("thinking_budget", "this model has no channel for thinking")
        for name, value in request.template.items():
            if value is not None and value is not _TEMPLATE.get(name):
                raise Unsupported(f"chat_template_kwargs.{name[:64]}", "not by this backend")

    async def count_tokens(self, request: GenerationRequest) -> int:
        return len((await asyncio.to_thread(self._loaded.render, request)).ids)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        """See Backend. The answer is at most as long as the window has room, whatever was asked for."""
        answering = self._loaded
        self.check(request)
        prompt = await asyncio.to_thread(answering.render, request)
        asked, watcher = await asyncio.to_thread(answering.prepare, request, prompt)
        first = True
        try:
            async with aclosing(answering.answer(asked, watcher)) as events:
                async for event in events:
                    if first:
                        first = False
                        yield Usage(input_tokens=len(prompt.ids))
                    if not isinstance(event, ModelNotice | StepDiscarded | OpaqueReceived):
                        yield event
        except QueueFull as error:
            raise Busy(error.message) from error
        except ModelError as error:
            if self.trouble():
                raise OutOfOrder(error.message) from error
            raise

    def figures(self) -> Sequence[Figure]:
        answering = self._answering
        if answering is None:
            return []
        metrics, runner = answering.engine.metrics, answering.runner
        experts = _experts(runner, metrics.running) if isinstance(runner, KimiRunner) else []
        return [*_figures(metrics), *experts]

    def trouble(self) -> str:
        return "" if self._answering is None else self._answering.engine.trouble

    async def close(self) -> None:
        answering, self._answering = self._answering, None
        if answering is not None:
            await asyncio.to_thread(answering.close)

    @property
    def _loaded(self) -> Answering:
        if self._answering is None:
            raise Closing("the model is not loaded")
        return self._answering


def _figures(metrics: Metrics) -> list[Figure]:
    pages_used = metrics.pages_total - metrics.pages_free
    numbers: list[tuple[str, str, float, str]] = [
        ("engine_waiting", "Requests that wait for a place in the batch", metrics.waiting, "gauge"),
        ("engine_running", "Requests in the batch", metrics.running, "gauge"),
        ("engine_pages_total", "Pages of 64 tokens in the cache", metrics.pages_total, "gauge"),
        ("engine_pages_used", "Pages that are in use or kept", pages_used, "gauge"),
        ("engine_prefix_states", "States kept for later requests", metrics.prefix_entries, "gauge"),
        ("engine_prefix_bytes", "Bytes of them", metrics.prefix_bytes, "gauge"),
        ("engine_prefix_lookups", "Prompts that were looked up", metrics.prefix_lookups, "counter"),
        ("engine_prefix_hits", "Prompts that began with a kept state", metrics.prefix_hits, "counter"),
        ("engine_prefix_evictions", "Kept states that were given up", metrics.prefix_evictions, "counter"),
        ("engine_prompt_tokens", "Tokens of prompts", metrics.prompt_tokens, "counter"),
        ("engine_cached_tokens", "Of these, not computed again", metrics.cached_tokens, "counter"),
        ("engine_output_tokens", "Tokens of answers", metrics.output_tokens, "counter"),
        ("engine_computed_tokens", "Tokens that went through the model", metrics.computed_tokens, "counter"),
        ("engine_preemptions", "Times a request gave up its place", metrics.preemptions, "counter"),
        ("engine_drafted_tokens", "Tokens guessed ahead", metrics.drafted_tokens, "counter"),
        ("engine_drafts_kept", "Of these, right", metrics.drafts_kept, "counter"),
    ]
    figures = [
        Figure(name, text, value, "counter" if kind == "counter" else "gauge")
        for name, text, value, kind in numbers
    ]
    for how, count in sorted(metrics.finished.items()):
        figures.append(Figure("engine_requests", "Requests by their end", count, "counter", {"end": how}))
    for name, text, histogram in (
        ("engine_first_token_seconds", "From arrival to the first token", metrics.time_to_first_token),
        ("engine_token_seconds", "Between two tokens of an answer", metrics.inter_token),
        ("engine_queue_seconds", "From arrival to a place in the batch", metrics.queue_time),
        ("engine_step_seconds", "One step of the model", metrics.step_time),
        ("engine_batch", "Requests in a step", metrics.batch),
        ("engine_step_tokens", "Tokens in a step", metrics.step_tokens),
    ):
        buckets, total = histogram.cumulative()
        figures.append(Figure(name, text, total, "histogram", buckets=buckets))
    return figures


def _experts(runner: KimiRunner, running: int) -> list[Figure]:
    """Memory of states, where experts came from, and per layer how unevenly they are chosen."""
    stats = runner.source.stats
    figures = [
        Figure(
            "engine_state_bytes",
            "Fixed-size states of the requests in the batch",
            running * runner.state_bytes,
        ),
        Figure("engine_expert_hits", "Experts that were in memory", stats.hits, "counter"),
        Figure("engine_expert_misses", "Experts that had to be read", stats.misses, "counter"),
        Figure("engine_experts_read_ahead", "Of these, read before they were needed", stats.ahead, "counter"),
        Figure("engine_expert_bytes_read", "Bytes of experts that were read", stats.bytes_read, "counter"),
    ]
    for layer, counts in runner.expert_use().items():
        total = int(counts.sum())
        labels = {"layer": str(layer)}
        uneven = float(counts.max()) * len(counts) / total if total else 1.0
        idle = int((counts == 0).sum())
        figures += [
            Figure("engine_expert_imbalance", "Busiest expert over the mean", uneven, labels=labels),
            Figure("engine_experts_idle", "Experts never chosen since loading", idle, labels=labels),
            Figure("engine_expert_choices", "Choices of an expert", total, "counter", labels),
        ]
    return figures
