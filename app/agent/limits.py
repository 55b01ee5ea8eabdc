"""Limits of a run as small middleware classes; each sees what happens and may end the run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...engine.chat import (
    ReasoningDelta,
    StepDiscarded,
    StreamEvent,
    TextDelta,
    ToolCallArguments,
    ToolResultPart,
)
from ...sandbox.base.errors import BudgetExceeded
from ..tools.base import PermissionClass
from .events import UsageTotals
from .history import Call


def _no_notice(_: str) -> None:
    """Nobody listens."""


@dataclass
class RunState:
    """What limits look at. Only the loop writes it."""

    step: int = 0
    """Steps started."""
    usage: UsageTotals = field(default_factory=UsageTotals)
    deadline: float | None = None
    """time.monotonic() value at which the run must be over."""
    notice: Callable[[str], None] = _no_notice
    """Tells the person something once."""


class Limit:
    """Base of all limits: does nothing anywhere."""

    name = "limit"

    def on_start(self, state: RunState) -> None:
        """The run begins; may set ``state.deadline``."""

    def before_step(self, state: RunState) -> None:
        """A step is about to start; may raise BudgetExceeded or LoopDetected."""

    def on_stream(self, event: StreamEvent) -> None:
        """A stream event arrived; may raise to cut the stream."""

    def after_call(self, call: Call, permission: PermissionClass | None, result: ToolResultPart) -> str:
        """A call has its result (``permission`` None: unknown tool); returns a remark for the model."""
        return ""


class MaxSteps(Limit):
    """At most so many questions to the model."""

    name = "max-steps"

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def before_step(self, state: RunState) -> None:
        if state.step >= self._steps:
            raise BudgetExceeded(
                f"the run used its {self._steps} steps without finishing", hint="raise --max-steps"
            )


class MaxTime(Limit):
    """Wall-clock limit; the deadline also reaches tools, which end their own work by it."""

    name = "max-time"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def on_start(self, state: RunState) -> None:
        own = time.monotonic() + self._seconds
        state.deadline = own if state.deadline is None else min(own, state.deadline)

    def before_step(self, state: RunState) -> None:
        if state.deadline is not None and time.monotonic() >= state.deadline:
            raise out_of_time()


class MaxTokens(Limit):
    """Sum of input and output tokens over all steps; estimated where an endpoint does not tell."""

    name = "max-tokens"

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def before_step(self, state: RunState) -> None:
        if state.usage.tokens >= self._tokens:
            raise BudgetExceeded(
                f"the run used {state.usage.tokens} of {self._tokens} tokens", hint="raise the token limit"
            )


class MaxCost(Limit):
    """Sum of the costs the endpoint reports, or of tokens times prices where prices are given.

    Args:
        usd: the limit.
        input_price, output_price: US dollars per million tokens, or None.
    """

    name = "max-cost"

    def __init__(
        self, usd: float, *, input_price: float | None = None, output_price: float | None = None
    ) -> None:
        self._usd = usd
        self._prices = (input_price, output_price)
        self._told = False

    def before_step(self, state: RunState) -> None:
        cost = self._cost(state.usage)
        if cost is None:
            if state.step > 0 and not self._told:
                self._told = True
                state.notice("the endpoint reports no cost and no prices are set: the cost limit cannot hold")
        elif cost >= self._usd:
            raise BudgetExceeded(f"the run cost ${cost:.2f} of ${self._usd:.2f}", hint="raise the cost limit")

    def _cost(self, usage: UsageTotals) -> float | None:
        if usage.cost_usd is not None:
            return usage.cost_usd
        input_price, output_price = self._prices
        if input_price is None or output_price is None or usage.input_tokens is None:
            return None
        return (usage.input_tokens * input_price + (usage.output_tokens or 0) * output_price) / 1e6


class MaxAnswer(Limit):
    """At most so many characters in one answer, thinking and arguments of calls included."""

    name = "max-answer"

    def __init__(self, characters: int = 2_000_000) -> None:
        self._characters = characters
        self._seen = 0

    def before_step(self, state: RunState) -> None:
        self._seen = 0

    def on_stream(self, event: StreamEvent) -> None:
        if isinstance(event, StepDiscarded):
            self._seen = 0
        elif isinstance(event, TextDelta | ReasoningDelta):
            self._seen += len(event.text)
        elif isinstance(event, ToolCallArguments):
            self._seen += len(event.delta)
        if self._seen > self._characters:
            raise BudgetExceeded(
                f"one answer of the model has more than {self._characters} characters and goes on",
                hint="try another model",
            )


def out_of_time(when: str = "") -> BudgetExceeded:
    """``when``: what was going on, for the person."""
    return BudgetExceeded(f"the time limit of the run is over {when}".rstrip(), hint="raise --max-time")
