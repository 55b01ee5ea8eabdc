"""What a door sees: the model's own stream events, and what the agent does with them.

Every event is immutable data with a ``kind``; doors consume these and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...engine.chat import (
    Effort,
    Finished,
    Frozen,
    JsonValue,
    ModelNotice,
    OpaqueReceived,
    ReasoningDelta,
    StepDiscarded,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolResultPart,
    Usage,
)
from ..context.view import ViewPlan


class StepStarted(Frozen):
    """The model is about to be asked; ``step`` counts from 1."""

    kind: Literal["step_started"] = "step_started"
    step: int
    effort: Effort
    reason: str = ""
    """Why this thinking tier."""
    window: int | None = None
    """Tokens of prompt and answer that the model can hold, as far as known."""


class ToolStarted(Frozen):
    kind: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    permission: str
    """read, write, execute or network."""
    arguments: dict[str, JsonValue]


class ToolProgress(Frozen):
    """A step inside a long-running tool (see ``app.tools.base.Progress``)."""

    kind: Literal["tool_progress"] = "tool_progress"
    call_id: str
    name: str
    phase: str
    text: str
    fraction: float | None = None
    data: JsonValue = None


class ToolFinished(Frozen):
    """Every call ends in exactly one of these, also when it was never run."""

    kind: Literal["tool_finished"] = "tool_finished"
    call_id: str
    name: str
    text: str
    data: JsonValue = None
    artifacts: tuple[str, ...] = ()
    is_error: bool = False
    duration_s: float = 0.0

    @classmethod
    def of(cls, part: ToolResultPart, duration_s: float = 0.0) -> ToolFinished:
        return cls(
            call_id=part.call_id,
            name=part.name,
            text=part.text,
            data=part.data,
            artifacts=part.artifacts,
            is_error=part.is_error,
            duration_s=duration_s,
        )


class CommandPart(Frozen):
    """One simple command of a command line, with what was decided about it."""

    shown: str
    decision: Literal["allow", "ask", "deny"]
    reason: str


class PermissionRequest(Frozen):
    """A question for the person."""

    call_id: str
    tool: str
    permission: str
    subject: str
    """The path, command or address it is about."""
    arguments: dict[str, JsonValue]
    reason: str
    parts: tuple[CommandPart, ...] = ()
    """How a command line was understood; empty for other tools, and where it was not understood."""
    prefix: str = ""
    """A pattern such as ``git log*`` that would allow this if it was remembered, or empty."""


class PermissionAnswer(Frozen):
    allowed: bool
    remember: bool = False
    """Also for the same tool and subject later in this run."""
    prefix: str = ""
    """With ``remember``: for every command this pattern covers (``git log*``) instead."""
    store: bool = False
    """With ``remember``: in later runs in this repository, too."""
    note: str = ""
    """Shown to the model with a refusal."""


class PermissionAsked(Frozen):
    kind: Literal["permission_asked"] = "permission_asked"
    request: PermissionRequest


class PermissionAnswered(Frozen):
    kind: Literal["permission_answered"] = "permission_answered"
    request: PermissionRequest
    answer: PermissionAnswer


class LimitReached(Frozen):
    kind: Literal["limit_reached"] = "limit_reached"
    limit: str
    text: str


class Notice(Frozen):
    """Something a person should know; never needed to follow the run."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"] = "info"
    text: str


class ContextCompacted(Frozen):
    """From here on the model is shown less of the conversation; the record keeps all of it."""

    kind: Literal["context_compacted"] = "context_compacted"
    text: str
    """One line for the person."""
    method: Literal["summary", "trimmed"]
    reason: Literal["threshold", "overflow"]
    before_tokens: int
    after_tokens: int
    """Estimates of the prompt."""
    view: ViewPlan
    """What is shown now, in terms of the stored messages."""


class ContextLoaded(Frozen):
    """What the model was given of the repository before it asked for anything."""

    kind: Literal["context_loaded"] = "context_loaded"
    text: str
    """One line for the person."""
    asked: str
    """auto, map or whole-repo."""
    mode: str
    """map, whole-repo or none."""
    files: tuple[str, ...] = ()
    """Files whose text (whole-repo) or outline (map) is there."""
    left_out: int = 0
    """Source files that are not."""
    tokens: int = 0


class UsageTotals(Frozen):
    """Sums over a run. None means that no step reported the figure, which is not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    steps_without_usage: int = 0
    estimated_tokens: int = 0
    """Our own estimate for the steps without usage."""

    def plus(self, usage: Usage | None, estimate: int) -> UsageTotals:
        """The totals after one more step; ``estimate`` counts where usage is missing."""
        if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
            missing = {
                "steps_without_usage": self.steps_without_usage + 1,
                "estimated_tokens": self.estimated_tokens + estimate,
            }
        else:
            missing = {}
        reported = {
            name: (getattr(self, name) or 0) + value
            for name in Usage.model_fields
            if name != "kind" and usage is not None and (value := getattr(usage, name)) is not None
        }
        return self.model_copy(update=reported | missing)

    def joined(self, other: UsageTotals) -> UsageTotals:
        """The sums of both: a run and what ran inside it."""
        names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd")
        reported = {
            name: (getattr(self, name) or 0) + (getattr(other, name) or 0)
            for name in names
            if getattr(self, name) is not None or getattr(other, name) is not None
        }
        return UsageTotals(
            **reported,
            steps_without_usage=self.steps_without_usage + other.steps_without_usage,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
        )

    @property
    def tokens(self) -> int:
        """Input and output, estimated where an endpoint does not tell."""
        return (self.input_tokens or 0) + (self.output_tokens or 0) + self.estimated_tokens


class RunFinished(Frozen):
    kind: Literal["run_finished"] = "run_finished"
    status: str
    """answered, or the status of the error that ended the run (budget, loop, denied, ...)."""
    text: str
    """The final answer, or the one line that says why there is none."""
    steps: int
    usage: UsageTotals


AgentEvent = Annotated[
    ReasoningDelta
    | TextDelta
    | ToolCallStart
    | ToolCallArguments
    | ToolCallEnd
    | OpaqueReceived
    | Usage
    | StepDiscarded
    | ModelNotice
    | Finished
    | StepStarted
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | PermissionAsked
    | PermissionAnswered
    | LimitReached
    | Notice
    | ContextCompacted
    | ContextLoaded
    | RunFinished,
    Field(discriminator="kind"),
]

TRANSIENT = frozenset(
    {
        "reasoning_delta",
        "text_delta",
        "tool_call_start",
        "tool_call_arguments",
        "tool_call_end",
        "opaque_received",
        "finished",
        "tool_progress",
    }
)
"""Kinds that are not stored: the finished message holds the same, and progress is for the moment."""
