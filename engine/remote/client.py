"""A model behind an OpenAI-compatible chat-completions server."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from ..chat import (
    Capabilities,
    Effort,
    Message,
    ModelNotice,
    ReasoningDelta,
    StepDiscarded,
    StreamEvent,
    ToolSpec,
    Usage,
)
from ..unseen import remarked
from .decode import REASONING_FIELDS
from .dialects import ANSWER_RESERVE, TOKEN_CAPS
from .endpoint import Endpoint
from .failures import Failure, RemoteError
from .learned import Learned
from .prices import Prices
from .profile import Profile
from .retry import RetryPolicy
from .thinking import ThinkingWatch
from .transport import Transport
from .wire import ReplyForm, encode_messages, encode_tools, estimate_tokens

_WINDOW_IN_ERROR = re.compile(
    r"(?:maximum context length is|available context size \(|maximum model length of|context window of"
    r"|n_ctx[\"' :=]+)\s*(\d{3,9})"
)
_MARGIN = 64
"""Tokens of template that no estimate sees."""


class RemoteModel:
    """Implements ChatModel over HTTP."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timeout_s: float = 600.0,
    ) -> None:
        """``timeout_s`` is the longest silence of the server, not the length of an answer."""
        self.endpoint = endpoint
        self.transport = Transport(endpoint, timeout_s)
        self.thinking = endpoint.thinking
        """Whether the model may think; may be changed between two steps. While it is False no
        thinking of earlier steps is sent either."""
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._learned = Learned()
        self._watch = ThinkingWatch(self.name)
        self._profile: Profile | None = None
        self._window: int | None = None
        self._seen_field = ""

    @property
    def name(self) -> str:
        return f"{self.endpoint.prefix}:{self.endpoint.model}"

    @property
    def context_window(self) -> int | None:
        """As a probe found it, or as a refusal of too long a prompt told it."""
        known = self._profile.context_window if self._profile else None
        return known or self._window

    @property
    def capabilities(self) -> Capabilities:
        return self._profile.capabilities if self._profile else Capabilities()

    def use_profile(self, profile: Profile) -> None:
        """From now on steps are asked for as the profile says."""
        self._profile = profile
        if profile.yes("effort") is False and profile.value("reasoning_field"):
            self._watch.known_to_be_ignored()
        returned = profile.value("reasoning_returned")
        if returned == "required":
            self._learned.must_return = True
        elif returned == "refused":
            self._learned.refused_reasoning.update(REASONING_FIELDS)
        content = profile.value("empty_content")
        if content in ("null", "empty", "missing"):
            self._learned.content = content
        for field in ("thinking_budget", "thinking_token_budget"):
            if profile.yes(field) is False:
                self._learned.refused.add(field)

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        return estimate_tokens(history, tools)

    async def close(self) -> None:
        await self.transport.close()

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """See ChatModel. Retrying is safe: no tool of a step runs before the step is complete."""
        failed, waited = 0, 0.0
        while True:
            body = self._body(history, tools, effort, max_output_tokens, seed)
            streamed = False
            step = self._watch.step(effort if self.thinking else None, _cap(body))
            try:
                async with aclosing(self.transport.attempt(body)) as events:
                    async for event in events:
                        streamed = True
                        if isinstance(event, ReasoningDelta):
                            self._seen_field = event.field if event.field in REASONING_FIELDS else ""
                        elif isinstance(event, Usage):
                            event = self._priced(event)
                        notice = step.see(event)
                        if notice:
                            yield ModelNotice(text=notice)
                        yield event
                return
            except RemoteError as error:
                if streamed:
                    yield StepDiscarded(reason=error.message)
                self._note_window(error)
                lesson = self._learned.learn(error, body)
                if lesson:
                    yield ModelNotice(text=f"{self.name}: {lesson}")
                    continue
                failed += 1
                delay = self._retry.delay(error, failed, waited)
                if delay is None:
                    raise
                yield ModelNotice(text=f"{error.message}; trying again in {delay:.1f} s")
            await self._sleep(delay)
            waited += delay

    # ------------------------------------------------------------ the request

    def _body(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        effort: Effort,
        max_output_tokens: int | None,
        seed: int | None,
    ) -> dict[str, Any]:
        dialect = self.endpoint.dialect
        fields: dict[str, Any] = {
            "stream_options": {"include_usage": True},
            **copy.deepcopy(dict(dialect.always)),
            **copy.deepcopy(dict(dialect.tiers.get(effort if self.thinking else "off", {}))),
            **copy.deepcopy(dict(self.endpoint.extra_body)),
        }
        limit = self._output_limit(history, tools, max_output_tokens)
        if limit is not None:
            default = "max_completion_tokens" if self.endpoint.is_openai else dialect.output_limit
            fields[self._learned.output_limit or default] = limit
        if dialect.token_cap and self.thinking and self._profile and self._profile.yes(dialect.token_cap):
            cap = TOKEN_CAPS[effort]
            fields[dialect.token_cap] = cap if limit is None else max(1, min(cap, limit - ANSWER_RESERVE))
        if seed is not None:
            fields["seed"] = seed
        body: dict[str, Any] = {
            "messages": encode_messages(
                remarked(history) if self.capabilities.images is False else history,
                self.endpoint.provider,
                self._reply_form(),
            ),
            **self._learned.apply(fields),
        }
        if tools:
            body["tools"] = encode_tools(tools)
        return body

    def _reply_form(self) -> ReplyForm:
        learned, dialect = self._learned, self.endpoint.dialect
        probed = self._profile.value("reasoning_input") if self._profile else None
        wanted = learned.reasoning_field or probed or self._seen_field or dialect.reasoning_field
        must = dialect.must_return if learned.must_return is None else learned.must_return
        names = [str(wanted), *REASONING_FIELDS]
        taken = [name for name in names if name in REASONING_FIELDS and name not in learned.refused_reasoning]
        return ReplyForm(
            thinking=self.thinking and bool(taken),
            field=taken[0] if taken else dialect.reasoning_field,
            renamed=bool(learned.reasoning_field or learned.refused_reasoning or probed),
            must_return=must,
            content=learned.content,
        )

    def _output_limit(
        self, history: Sequence[Message], tools: Sequence[ToolSpec], wanted: int | None
    ) -> int | None:
        """Never less than the dialect advises, never more than what the window leaves."""
        least = self.endpoint.dialect.least_output
        if wanted is None and not least:
            return None
        limit = max(wanted or 2 * least, least)
        if self.context_window is not None:
            room = self.context_window - estimate_tokens(history, tools) - _MARGIN
            # Without room the server's own words about the overflow are better than a silly limit.
            limit = min(limit, room) if room > 0 else limit
        return limit

    # ------------------------------------------------------------ what answers tell

    def _priced(self, usage: Usage) -> Usage:
        prices = self.endpoint.prices
        if prices is None and self._profile is not None and self._profile.prices is not None:
            prices = Prices(*self._profile.prices)
        return prices.complete(usage) if prices else usage

    def _note_window(self, error: RemoteError) -> None:
        told = _WINDOW_IN_ERROR.search(error.message) if error.failure is Failure.CONTEXT_OVERFLOW else None
        if told:
            self._window = int(told[1])


def _cap(body: dict[str, Any]) -> int | None:
    cap = body.get("thinking_token_budget")
    return cap if isinstance(cap, int) else None
