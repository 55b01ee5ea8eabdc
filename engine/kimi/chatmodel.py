"""``kimi:DIR``: a checkpoint of the Kimi K3 family that runs inside this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from ...sandbox.base.errors import ConfigError, ModelError
from ..chat import (
    Capabilities,
    Effort,
    Message,
    ModelNotice,
    StreamEvent,
    ToolSpec,
)
from ..remote.failures import Failure, RemoteError
from ..remote.wire import estimate_tokens
from ..serve.backend import GenerationRequest, PromptTooLong, Refused, Sampling, StoppedBy, TokenLogprobs
from ..unseen import NOTICE, has_images, remarked
from .answering import Answering
from .chat.format import ChatFormat
from .opening import Local

THINKING: dict[Effort, int] = {"low": 1024, "high": 8192, "max": 32768}
"""Tokens of thinking, after which the channel is closed."""
_ANSWER = 8192
"""Tokens left for the answer, where there is room."""


class KimiModel:
    """Implements ChatModel; the weights are loaded with the first step."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self._answering: Answering | None = None
        self._chat: ChatFormat | None = None
        self._window: int | None = None
        self._told: set[str] = set()
        self._loading, self._reading = threading.Lock(), threading.Lock()

    @property
    def name(self) -> str:
        return self._local.name

    @property
    def context_window(self) -> int | None:
        if self._answering is not None:
            return self._answering.window
        if self._window is None:
            self._window = self._local.window()
        return self._window

    @property
    def capabilities(self) -> Capabilities:
        sees = None if self._answering is None else self._answering.sees_images
        # Rounded arithmetic depends on how many tokens a step has, so on what was cached and who else asks.
        exact = self._local.exact
        return Capabilities(tools=True, parallel_tools=True, images=sees, effort=True, deterministic=exact)

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Exact: the tokens of the prompt as the checkpoint's format makes it."""
        try:
            return len(self._format().render(self._seen(history), tools).ids)
        except (ModelError, ConfigError):
            # Why it fails is told by the next step, which fails for the same reason.
            return estimate_tokens(history, tools)

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """See ChatModel. Leaving the stream early stops the model after the token it is at."""
        answering = await asyncio.to_thread(self._load)
        request = GenerationRequest(
            self.name,
            tuple(self._seen(history)),
            tuple(tools),
            effort=effort,
            sampling=Sampling(seed=seed),
        )
        try:
            prompt = await asyncio.to_thread(answering.render, request)
            request, cap = _limited(request, answering, len(prompt.ids), effort, max_output_tokens)
            asked, watcher = await asyncio.to_thread(answering.prepare, request, prompt)
        except PromptTooLong as error:
            raise RemoteError(Failure.CONTEXT_OVERFLOW, f"{self.name}: {error.message}") from error
        except Refused as error:
            raise ModelError(f"{self.name}: {error.message}") from error
        for notice in self._notices(answering):
            yield ModelNotice(text=notice)
        if not answering.sees_images and has_images(history) and NOTICE not in self._told:
            self._told.add(NOTICE)
            yield ModelNotice(text=NOTICE)
        async with aclosing(answering.answer(asked, watcher)) as events:
            async for event in events:
                if isinstance(event, TokenLogprobs | StoppedBy):
                    continue
                if event.kind == "usage" and cap is not None and watcher.thinking_tokens >= cap:
                    yield ModelNotice(text=f"thinking was ended after {cap} tokens (effort {effort})")
                yield (
                    event.model_copy(update={"source": self.name})
                    if event.kind == "reasoning_delta"
                    else event
                )

    async def close(self) -> None:
        answering, self._answering = self._answering, None
        if answering is not None:
            await asyncio.to_thread(answering.close)

    def _load(self) -> Answering:
        with self._loading:
            if self._answering is not None and self._answering.engine.trouble:
                # Nothing can be got from it any more (a process of it was killed): a new one may do better.
                self._answering.close()
                self._answering = None
            if self._answering is None:
                self._answering = self._local.load(self._format())
            return self._answering

    def _format(self) -> ChatFormat:
        with self._reading:
            if self._chat is None:
                self._chat = self._local.chat()
            return self._chat

    def _seen(self, history: Sequence[Message]) -> Sequence[Message]:
        """The history as this model can take it: images become a remark where it has no eyes."""
        if self._answering is not None and self._answering.sees_images:
            return history
        return remarked(history)

    def _notices(self, answering: Answering) -> list[str]:
        new = [text for text in answering.notices if text not in self._told]
        self._told.update(new)
        return new


def _limited(
    request: GenerationRequest, answering: Answering, prompt: int, effort: Effort, most: int | None
) -> tuple[GenerationRequest, int | None]:
    """The request with its limits; thinking always leaves room for an answer."""
    room = max(1, answering.window - prompt)
    if most is not None:
        room = min(room, most)
    if not answering.thinks:
        return replace(request, max_tokens=min(room, most or _ANSWER)), None
    cap = min(THINKING[effort], room - min(_ANSWER, room // 2))
    return replace(request, max_tokens=min(room, cap + _ANSWER), thinking_budget=cap), cap
