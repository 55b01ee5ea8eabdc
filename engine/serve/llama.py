"""A GGUF file as a backend: llama.cpp in a process of its own, one request at a time.

What it cannot do is refused by the name of the field; nothing is ignored that would change the answer.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ..chat import (
    Capabilities,
    Finished,
    ImagePart,
    ModelNotice,
    OpaqueReceived,
    StepDiscarded,
    TextDelta,
    ToolCallStart,
    Usage,
    user,
)
from ..gguf.answers import Inexpressible, check_structure
from ..gguf.model import THINKING, LlamaModel, UnusableForm, resolve_file
from ..remote.failures import Failure, RemoteError
from .backend import (
    Figure,
    GenerationEvent,
    GenerationRequest,
    PromptTooLong,
    Refused,
    Sampling,
    StoppedBy,
    Structure,
    TokenChance,
    TokenLogprobs,
    Unsupported,
)
from .stops import StopFilter

_TEMPLATE = frozenset(["preserve_thinking"])
"""What may stand in ``chat_template_kwargs``: old thinking is kept wherever the template keeps it."""


class LlamaBackend:
    """Implements Backend."""

    def __init__(self, model: LlamaModel, names: Sequence[str]) -> None:
        self._model = model
        self._names = tuple(names)
        self._window = model.context_window or 0
        self._served = 0
        self._restarts = 0
        self._pid: int | None = None
        self._busy_s = 0.0

    @classmethod
    def open(cls, name: str, names: Sequence[str], environ: Mapping[str, str]) -> LlamaBackend:
        """The model of ``llama:NAME``; clients may use that form, too.

        Raises:
            ConfigError: the extra is missing, or the file is none that can be used.
        """
        model = LlamaModel(resolve_file(name, environ))
        short = name.rpartition("/")[2].removesuffix(".gguf")
        known = dict.fromkeys([*(names or [short]), model.name])
        return cls(model, list(known))

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def context_window(self) -> int:
        return self._window

    @property
    def max_concurrent(self) -> int | None:
        return 1

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    async def start(self) -> None:
        """Answers one token, so that the weights are in memory and the file is known to be good."""
        request = GenerationRequest("start", (user("hello"),), max_tokens=1)
        async with aclosing(self.generate(request)) as events:
            async for _ in events:
                pass
        self._served = 0

    def check(self, request: GenerationRequest) -> None:
        sampling = request.sampling
        if sampling.logit_bias:
            raise Unsupported("logit_bias", "not by this backend")
        if any(isinstance(part, ImagePart) for message in request.messages for part in message.parts):
            raise Refused("this model cannot see images", parameter="messages")
        for name in request.template:
            if name not in _TEMPLATE:
                raise Unsupported(f"chat_template_kwargs.{name[:64]}", "not by this backend")
        structure = request.structure
        if structure is None:
            return
        if structure.kind in ("regex", "grammar"):
            raise Unsupported(f"structured_outputs.{structure.kind}", "not by this backend")
        if request.tools and request.tool_choice.mode != "none":
            raise Unsupported("response_format", "not together with tools that may be called")
        try:
            check_structure(_plain(structure))
        except Inexpressible as error:
            raise Refused(f"response_format: {error}", parameter="response_format") from error

    async def count_tokens(self, request: GenerationRequest) -> int:
        tools = () if request.tool_choice.mode == "none" else request.tools
        return await asyncio.to_thread(self._model.count_tokens, request.messages, tools)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        """See Backend. The answer is at most as long as the window has room, whatever was asked for."""
        run = _Run(request)
        began = time.monotonic()
        answer = self._model.answer(
            self._question(request), f"call_{request.id}", watch=run.watch, halted=lambda: run.halted
        )
        try:
            async with aclosing(answer) as events:
                async for event in events:
                    for shown in run.events(event):
                        yield shown
        except RemoteError as error:
            if error.failure is Failure.CONTEXT_OVERFLOW:
                raise PromptTooLong(run.prompt, self._window) from error
            raise
        except UnusableForm as error:
            field = "response_format" if request.structure else "tools"
            raise Refused(f"{field}: {error.message}", parameter=field) from error
        finally:
            self._busy_s += time.monotonic() - began
            self._served += 1
            pid = self._model.pid
            if pid != self._pid and self._pid is not None:
                self._restarts += 1
            self._pid = pid or self._pid

    def figures(self) -> Sequence[Figure]:
        return [
            Figure("backend_busy_seconds", "Seconds that the model has worked", self._busy_s, "counter"),
            Figure("backend_answers", "Answers that the model has begun", self._served, "counter"),
            Figure("backend_restarts", "Times its process was started again", self._restarts, "counter"),
            Figure("context_window_tokens", "Tokens of prompt and answer", self._window),
        ]  # fmt: skip

    @property
    def notices(self) -> Sequence[str]:
        return ()

    def trouble(self) -> str:
        return ""  # the process is started again by the next request, whatever has become of it

    async def close(self) -> None:
        await self._model.close()

    def _question(self, request: GenerationRequest) -> dict[str, Any]:
        choice = request.tool_choice
        tools = () if choice.mode == "none" else request.tools
        most = self._window if request.max_tokens is None else request.max_tokens
        thinking = THINKING[request.effort or "high"]
        if request.thinking_budget is not None:
            thinking = request.thinking_budget
        if request.thinking is False:
            thinking = 0
        seed = request.sampling.seed
        return {
            "do": "answer",
            **self._model.conversation(request.messages, tools),
            "seed": (secrets.randbits(31) if seed is None else seed) & 0x7FFFFFFF,
            "most_tokens": most,
            "answer_tokens": most,
            "thinking_tokens": thinking,
            "call_first": choice.mode in ("required", "named"),
            "callable": [choice.name] if choice.mode == "named" else None,
            "several": request.parallel_tool_calls and choice.mode != "named",
            "structure": None if request.structure is None else _plain(request.structure),
            "top_logprobs": request.top_logprobs,
            "sampling": _sampling(request.sampling),
        }


class _Run:
    """What one answer keeps track of."""

    def __init__(self, request: GenerationRequest) -> None:
        self.prompt = self.cached = 0
        self._told = False
        self._stops = StopFilter(request.sampling.stop)
        self._several = request.parallel_tool_calls
        self._calls = 0
        self._dropped: set[str] = set()
        self._chances: list[TokenLogprobs] = []

    @property
    def halted(self) -> bool:
        return self._stops.found is not None

    def watch(self, answer: dict[str, Any]) -> None:
        if "input_tokens" in answer:
            self.prompt = answer["input_tokens"]
        if "cached_tokens" in answer:
            self.cached = answer["cached_tokens"]
        if chances := answer.get("chances"):
            chosen, *top = [_chance(data, logprob) for data, logprob in chances]
            self._chances.append(TokenLogprobs(chosen, tuple(top)))

    def events(self, event: Any) -> list[GenerationEvent]:
        shown: list[GenerationEvent] = []
        if not self._told:
            self._told = True
            if not isinstance(event, Usage | Finished):
                shown.append(Usage(input_tokens=self.prompt, cached_tokens=self.cached))
        if isinstance(event, TextDelta):
            if text := self._stops.feed(event.text):
                shown += [*self._taken(), TextDelta(text=text)]
            return shown
        if isinstance(event, ModelNotice | OpaqueReceived | StepDiscarded):
            return shown
        if self.halted and not isinstance(event, Usage | Finished):
            return shown
        if rest := self._stops.rest():
            shown += [*self._taken(), TextDelta(text=rest)]
        if isinstance(event, ToolCallStart):
            self._calls += 1
            if self._calls > 1 and not self._several:
                self._dropped.add(event.id)
        if getattr(event, "id", None) in self._dropped:
            return shown
        if isinstance(event, Usage) and self._stops.found is None:
            shown += self._taken()
        if isinstance(event, Finished) and self._stops.found is not None:
            shown += [StoppedBy(self._stops.found), Finished(reason="stop")]
        else:
            shown.append(event)
        return shown

    def _taken(self) -> list[TokenLogprobs]:
        taken, self._chances = self._chances, []
        return taken


def _chance(data: str, logprob: float) -> TokenChance:
    raw = bytes.fromhex(data)
    return TokenChance(raw.decode("utf-8", "replace"), logprob, raw)


def _plain(structure: Structure) -> dict[str, Any]:
    return {"kind": structure.kind, "value": structure.value}


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """Only what the client has given: the rest is as it is for everybody."""
    given = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repetition": sampling.repetition_penalty,
        "frequency": sampling.frequency_penalty,
        "presence": sampling.presence_penalty,
    }
    return {name: value for name, value in given.items() if value is not None}
