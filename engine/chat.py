"""The vocabulary every model and every door shares: messages, tool calls, stream events.

A ``ChatModel`` streams events for one step: reasoning and text deltas, tool calls,
usage, a finish reason. Histories are lists of ``Message``; parts are kept verbatim
and in order, including empty reasoning and provider-opaque parts, because some
endpoints refuse a history in which either was altered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

JsonValue = Any
"""What ``json.loads`` returns; pydantic's own recursive alias costs import time."""

Effort = Literal["low", "high", "max"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "cancelled", "unknown"]


class Frozen(BaseModel):
    """Immutable, strict about unknown keys, cheap to serialise."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---------------------------------------------------------------- message parts


class TextPart(Frozen):
    kind: Literal["text"] = "text"
    text: str


class ReasoningPart(Frozen):
    """Thinking text, verbatim (an empty string is kept)."""

    kind: Literal["reasoning"] = "reasoning"
    text: str
    field: str = "reasoning_content"
    """The name under which the endpoint sent it and wants it back."""
    source: str = ""
    """Which model thought it (see ``OpaquePart.provider``); empty: the one that is being asked."""


class ImagePart(Frozen):
    kind: Literal["image"] = "image"
    media_type: str
    data_base64: str
    """Encoded image bytes; kept as text so that sessions stay JSON."""


class ToolCallPart(Frozen):
    kind: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    arguments: str
    """Raw JSON text as the model wrote it (repaired to valid JSON before replay)."""


class ToolResultPart(Frozen):
    """What one tool call gave: text for the model, typed data for programs."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    text: str
    data: JsonValue = None
    artifacts: tuple[str, ...] = ()
    """Handles of complete outputs in the session's blob store."""
    is_error: bool = False


class OpaquePart(Frozen):
    """Provider-specific content that must be replayed untouched to that provider only."""

    kind: Literal["opaque"] = "opaque"
    provider: str
    payload: JsonValue


Part = Annotated[
    TextPart | ReasoningPart | ImagePart | ToolCallPart | ToolResultPart | OpaquePart,
    Field(discriminator="kind"),
]


class Message(Frozen):
    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...]

    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


def user(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text=text),))


def system(text: str) -> Message:
    return Message(role="system", parts=(TextPart(text=text),))


# ---------------------------------------------------------------- stream events


class ReasoningDelta(Frozen):
    kind: Literal["reasoning_delta"] = "reasoning_delta"
    text: str
    field: str = "reasoning_content"
    source: str = ""


class TextDelta(Frozen):
    kind: Literal["text_delta"] = "text_delta"
    text: str


class ToolCallStart(Frozen):
    kind: Literal["tool_call_start"] = "tool_call_start"
    id: str
    name: str


class ToolCallArguments(Frozen):
    kind: Literal["tool_call_arguments"] = "tool_call_arguments"
    id: str
    delta: str


class ToolCallEnd(Frozen):
    """The call is complete; ``arguments`` is the whole raw text."""

    kind: Literal["tool_call_end"] = "tool_call_end"
    id: str
    name: str
    arguments: str


class OpaqueReceived(Frozen):
    kind: Literal["opaque_received"] = "opaque_received"
    provider: str
    payload: JsonValue


class Usage(Frozen):
    """Token counts as the endpoint reported them. None means unknown, which is not zero."""

    kind: Literal["usage"] = "usage"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    """Input that was written into the cache, which some providers bill above the rest."""
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class StepDiscarded(Frozen):
    """Everything streamed so far in this step is void: a retry follows and replaces it."""

    kind: Literal["step_discarded"] = "step_discarded"
    reason: str


class ModelNotice(Frozen):
    """Something a person should know once (an ignored setting, a repaired call)."""

    kind: Literal["model_notice"] = "model_notice"
    text: str


class Finished(Frozen):
    kind: Literal["finished"] = "finished"
    reason: FinishReason


StreamEvent = Annotated[
    ReasoningDelta
    | TextDelta
    | ToolCallStart
    | ToolCallArguments
    | ToolCallEnd
    | OpaqueReceived
    | Usage
    | StepDiscarded
    | ModelNotice
    | Finished,
    Field(discriminator="kind"),
]


# ---------------------------------------------------------------- the protocol


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model sees it: name, description, JSON schema of the arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Capabilities:
    """What an endpoint can do; None = not known yet."""

    tools: bool | None = None
    parallel_tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    effort: bool | None = None
    deterministic: bool = False
    """True when the same history and seed always give the same answer."""


class ChatModel(Protocol):
    """Answers one step at a time. Stateless: the whole history comes with each call."""

    @property
    def name(self) -> str:
        """The full model string, e.g. ``openai:gpt-x`` or ``embedded``."""
        ...

    @property
    def context_window(self) -> int | None:
        """Tokens of prompt plus answer; None = unknown."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: Effort = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """Streams one step; the last event is always ``Finished``.

        Raises:
            ModelError: after the retries that make sense for the failure.
        """
        ...

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Exact where a tokenizer is at hand, otherwise a conservative estimate."""
        ...

    async def close(self) -> None: ...
