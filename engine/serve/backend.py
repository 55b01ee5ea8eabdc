"""What stands behind the server: one model that answers requests made of messages.

The server knows HTTP and nothing of tokens: rendering the prompt, batching, constrained decoding and
parsing of what the model writes are the backend's business. Everything here is plain data and
standard library, so that a scheduler can implement it without the server's packages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..chat import (
    Capabilities,
    Effort,
    Finished,
    Message,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolSpec,
    Usage,
)

# ---------------------------------------------------------------- the question


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; None = the backend's own default for this model."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    """0: all tokens."""
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts before which the answer (never the thinking) ends; they are not part of it."""
    logit_bias: Mapping[int, float] = field(default_factory=dict[int, float])
    """Token id to what is added to its logit, -100 ... 100."""


@dataclass(frozen=True)
class Structure:
    """The form that the text of the answer must have (thinking is free)."""

    kind: Literal["json_object", "json_schema", "regex", "choice", "grammar"]
    value: Any = None
    """The schema, the pattern, the list of texts, or the grammar; None for json_object."""


@dataclass(frozen=True)
class ToolChoice:
    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str = ""
    """Of the one tool that must be called (``named`` only)."""


@dataclass(frozen=True)
class GenerationRequest:
    """One request at message level. Fields that are None were not given by the client."""

    id: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tool_calls: bool = True
    structure: Structure | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    """Of thinking, calls and answer together; None: whatever the window leaves."""
    effort: Effort | None = None
    thinking: bool | None = None
    """False: no thinking is wanted."""
    thinking_budget: int | None = None
    """Tokens of thinking after which the channel is closed for the model."""
    top_logprobs: int | None = None
    """None: no log-probabilities; n: those of the token chosen and of the n likeliest."""
    template: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the client gave in ``chat_template_kwargs`` (thinking and effort are taken out)."""


# ---------------------------------------------------------------- the answer


@dataclass(frozen=True)
class TokenChance:
    """A token and its natural log-probability."""

    text: str
    logprob: float
    data: bytes
    """The token's own bytes: one token may be a part of a character."""


@dataclass(frozen=True)
class TokenLogprobs:
    """Log-probabilities of one token of the answer's text; comes beside the text deltas, in order."""

    chosen: TokenChance
    top: tuple[TokenChance, ...] = ()


@dataclass(frozen=True)
class StoppedBy:
    """Which of ``Sampling.stop`` ended the answer; comes before ``Finished``."""

    text: str


GenerationEvent = (
    ReasoningDelta
    | TextDelta
    | ToolCallStart
    | ToolCallArguments
    | ToolCallEnd
    | TokenLogprobs
    | StoppedBy
    | Usage
    | Finished
)
"""``ToolCallArguments`` are all the pieces of ``ToolCallEnd.arguments``; ``Finished`` is the last event.

``Usage`` may come as soon as the prompt is read (its tokens, and how many of them were cached), and
comes (again) before ``Finished``: the last one holds. Its ``reasoning_tokens`` are a part of
``output_tokens``, its ``cached_tokens`` of ``input_tokens``.
"""


# ---------------------------------------------------------------- failures


class Refused(Exception):
    """The request cannot be served as it is; one line for the client.

    Args:
        parameter: the request's field that is at fault, in the client's spelling, or empty.
    """

    code = "invalid_value"

    def __init__(self, message: str, *, parameter: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.parameter = parameter


class Unsupported(Refused):
    """A parameter that this backend cannot honour (and will not ignore)."""

    code = "unsupported_parameter"

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter} is not supported: {why}", parameter=parameter)


class PromptTooLong(Refused):
    """The prompt leaves no room for an answer, or not for as many tokens as were asked for."""

    code = "context_length_exceeded"

    def __init__(self, prompt: int, window: int, asked: int | None = None) -> None:
        wanted = f" and {asked} were asked for the answer" if asked else ""
        super().__init__(
            f"the context length is {window} tokens, but the messages have {prompt}{wanted}",
            parameter="messages",
        )
        self.prompt, self.window = prompt, window


class OutOfOrder(Exception):
    """The model can answer nothing any more, see ``Backend.trouble``."""


class Busy(Exception):
    """No room now (queue or memory); ``retry_after_s`` is a guess in seconds."""

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s


# ---------------------------------------------------------------- figures


@dataclass(frozen=True)
class Figure:
    """One number for ``/metrics``; names get the prefix ``whimbrel_``."""

    name: str
    help: str
    value: float
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Figures of one name have labels of the same names (layer, expert, ...)."""
    buckets: Sequence[tuple[float, int]] = ()
    """Of a histogram: upper ends and the counts up to them; ``value`` is then the sum."""


class Backend(Protocol):
    """One model, answering any number of requests at a time. Used from one event loop only."""

    @property
    def names(self) -> Sequence[str]:
        """What clients may call the model; the first is shown in lists."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens of prompt and answer."""
        ...

    @property
    def max_concurrent(self) -> int | None:
        """Requests that make progress at the same time; None: it decides by itself."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def notices(self) -> Sequence[str]:
        """What whoever runs the server should know of the loaded model, one line each."""
        ...

    async def start(self) -> None:
        """Makes the model ready to answer.

        Raises:
            WhimbrelError: it cannot be loaded.
        """
        ...

    def check(self, request: GenerationRequest) -> None:
        """Refuses what can never be served, before the request waits for its turn; must be quick.

        Raises:
            Refused: with the parameter's name.
        """
        ...

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Tokens of the prompt, exactly as ``generate`` would make it."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
        """Answers. Closing the generator (``aclose``) cancels the request and frees what it held.

        Raises:
            Refused: see ``check``; ``PromptTooLong`` before the first event.
            Busy: no memory for it now; before the first event only.
            OutOfOrder: this request failed, and so will all others.
            Exception: whatever failed; other requests go on.
        """
        ...

    def figures(self) -> Sequence[Figure]:
        """Numbers of its own: batch, caches and their hits, expert routing, memory. Must be quick."""
        ...

    def trouble(self) -> str:
        """Why it can answer nothing at the moment, in one line; empty: it is well."""
        ...

    async def close(self) -> None:
        """Frees everything; requests that still run fail. The server drains first."""
        ...
