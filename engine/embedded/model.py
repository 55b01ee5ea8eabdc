"""The embedded policy behind the ChatModel protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ..chat import (
    Capabilities,
    Effort,
    Finished,
    Message,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolSpec,
    Usage,
)
from .policy import Call, Policy

_CHARACTERS_PER_TOKEN = 3
"""Conservative for English and code; only used to estimate, the policy has no tokenizer."""


class EmbeddedModel:
    """A ChatModel without weights: the same history always gives the same step."""

    def __init__(self) -> None:
        self._policy = Policy()

    @property
    def name(self) -> str:
        return "embedded"

    @property
    def context_window(self) -> int | None:
        return None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            tools=True, parallel_tools=False, images=False, reasoning=False, effort=False, deterministic=True
        )

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """Streams the next step; ``effort``, ``max_output_tokens`` and ``seed`` change nothing here."""
        step = self._policy.decide(history, tools)
        if isinstance(step, Call):
            number = 1 + sum(len(message.tool_calls()) for message in history)
            call_id = f"embedded-{number}"
            yield TextDelta(text=step.remark)
            yield ToolCallStart(id=call_id, name=step.name)
            yield ToolCallArguments(id=call_id, delta=step.arguments)
            yield ToolCallEnd(id=call_id, name=step.name, arguments=step.arguments)
            yield Usage(input_tokens=0, output_tokens=0, cost_usd=0.0)
            yield Finished(reason="tool_calls")
            return
        yield TextDelta(text=step.text)
        yield Usage(input_tokens=0, output_tokens=0, cost_usd=0.0)
        yield Finished(reason="stop")

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """An estimate from the size of the serialised history."""
        size = sum(len(message.model_dump_json()) for message in history)
        size += sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in tools)
        return -(-size // _CHARACTERS_PER_TOKEN)

    async def close(self) -> None:
        """Nothing is held open."""
