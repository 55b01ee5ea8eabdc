"""The agent loop: ask the model, keep its answer verbatim, run its calls, append their results, repeat.

It ends with an answer that calls nothing, or with a limit, a denial, or an error.
Data flows one way: what happens goes to ``on_event`` and to the session, nothing comes back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...engine.chat import ChatModel, Effort, Message, StepDiscarded
from ...sandbox.base.errors import (
    BudgetExceeded,
    LoopDetected,
    ModelError,
    WhimbrelError,
)
from ..sessions import SessionWriter
from ..tools.base import Tool, ToolContext, spec_of
from .cleaning import StreamCleaner
from .denials import Denials
from .events import (
    TRANSIENT,
    AgentEvent,
    LimitReached,
    Notice,
    RunFinished,
    StepStarted,
    ToolFinished,
    UsageTotals,
)
from .history import History, StepBuilder
from .limits import Limit, RunState, out_of_time
from .permissions import Permissions
from .signals import cancellation
from .streams import closing
from .tool_calls import Answered, Ask, ToolCalls

WAITING = "while the model had not begun to answer"


@dataclass(frozen=True)
class AgentOutcome:
    """How a run ended."""

    status: str
    """answered, or the status of ``error``."""
    final_text: str
    steps: int
    usage: UsageTotals
    error: WhimbrelError | None = None
    """What ended the run when the model gave no final answer; carries the exit code."""
    denied: tuple[str, ...] = ()
    """Reasons of calls that were not allowed."""


class Agent:
    """One conversation of one model with one set of tools."""

    def __init__(
        self,
        model: ChatModel,
        tools: Sequence[Tool],
        context: ToolContext,
        *,
        session: SessionWriter,
        limits: Sequence[Limit],
        permissions: Permissions,
        on_event: Callable[[AgentEvent], None],
        ask: Ask | None = None,
    ) -> None:
        self.outcome: AgentOutcome | None = None
        """Set when ``run`` ends in any way, also by cancellation."""
        self._model = model
        self._specs = [spec_of(tool) for tool in tools]
        self._context = context
        self._session = session
        self._limits = limits
        self._on_event = on_event
        self._cleaner = StreamCleaner()
        self._calls = ToolCalls(tools, context, permissions, self._emit, ask)
        self._denials = Denials()

    async def run(
        self,
        messages: Sequence[Message],
        *,
        past: Sequence[Message] = (),
        effort: Effort = "high",
        seed: int = 0,
    ) -> AgentOutcome:
        """Runs to the end; errors of the tree become the outcome, cancellation is passed on.

        ``past`` is what the session holds already of this conversation.

        Raises:
            asyncio.CancelledError: everything running was ended and recorded before.
        """
        state = RunState(deadline=self._context.deadline, notice=lambda text: self._emit(Notice(text=text)))
        history = History(self._session, messages, past=past)
        text, error = "", WhimbrelError("the run ended by an internal error")
        try:
            text, error = await self._converse(history, state, effort, seed), None
        except asyncio.CancelledError:
            error = cancellation()
            raise
        except WhimbrelError as ended:
            error = ended
            if isinstance(ended, BudgetExceeded | LoopDetected):
                self._emit(LimitReached(limit=ended.status, text=ended.message))
        finally:
            self._close(history, state, text, error)
        assert self.outcome is not None
        return self.outcome

    async def _converse(self, history: History, state: RunState, effort: Effort, seed: int) -> str:
        for limit in self._limits:
            limit.on_start(state)
        retrying = False
        while True:
            for limit in self._limits:
                limit.before_step(state)
            state.step += 1
            # An answer lost in thinking is asked for once more with less thinking, then given up.
            step = await self._ask_model(history, state, "low" if retrying else effort, seed)
            if step.empty:
                if retrying or step.reason == "content_filter":
                    raise ModelError(f"the model gave no answer (finish reason: {step.reason})")
                retrying = True
                self._emit(StepDiscarded(reason=f"no answer ({step.reason}); asking with less thinking"))
                continue
            retrying = False
            message = step.message()
            history.append(message)
            if not step.calls:
                self._denials.at_answer()
                if step.reason in ("length", "content_filter"):
                    self._emit(Notice(level="warning", text=f"the answer may be cut short ({step.reason})"))
                return message.text()
            answered: list[Answered] = []
            record = partial(self._record, history, answered)
            await self._calls.run(step.calls, state.deadline, record)
            self._denials.after_step(answered)

    async def _ask_model(self, history: History, state: RunState, effort: Effort, seed: int) -> StepBuilder:
        """Streams one step into a builder; the deadline of the run cuts it."""
        self._emit(StepStarted(step=state.step, effort=effort))
        step = StepBuilder()
        left = None if state.deadline is None else max(0.0, state.deadline - time.monotonic())
        clock = asyncio.timeout(left)
        try:
            async with clock:
                stream = self._model.stream(history.messages, self._specs, effort=effort, seed=seed)
                async with closing(stream) as events:
                    async for event in events:
                        step.feed(event)
                        self._emit(event)
                        for limit in self._limits:
                            limit.on_stream(event)
        except TimeoutError as error:
            if clock.expired():
                raise out_of_time(
                    "while the model was answering" if step.partial().parts else WAITING
                ) from error
            raise ModelError(f"the model timed out: {error}") from error
        finally:
            if not step.finished and step.partial().parts:
                self._session.append("partial_step", step.partial().model_dump())
        guess = 0
        if step.usage is None:
            guess = self._model.count_tokens([*history.messages, step.partial()], self._specs)
        state.usage = state.usage.plus(step.usage, guess)
        return step

    def _record(self, history: History, results: list[Answered], answered: Answered) -> None:
        """Appends one result, with the remarks of the limits, before anything else can happen."""
        part, loop = answered.result, None
        for limit in self._limits:
            try:
                remark = limit.after_call(answered.call, answered.permission, part)
            except LoopDetected as error:
                loop, remark = error, ""
            if remark:
                part = part.model_copy(update={"text": f"{part.text}\n{remark}"})
        history.append(Message(role="tool", parts=(part,)))
        results.append(answered)
        if loop is not None:
            raise loop

    def _close(self, history: History, state: RunState, text: str, error: WhimbrelError | None) -> None:
        why = "no result: " + (error.message if error else "the run ended")
        for part in history.close_open_calls(why):
            self._emit(ToolFinished.of(part))
        status = error.status if error else "answered"
        denied = tuple(self._denials.reasons)
        self.outcome = AgentOutcome(status, text, state.step, state.usage, error, denied)
        shown = error.one_line() if error else text
        self._emit(RunFinished(status=status, text=shown, steps=state.step, usage=state.usage))

    def _emit(self, event: AgentEvent) -> None:
        if event.kind not in TRANSIENT:
            # Texts and data of results are in the message that follows; once is enough.
            skip = {"text", "data"} if isinstance(event, ToolFinished) else None
            self._session.append(event.kind, event.model_dump(exclude=skip))
        for shown in self._cleaner.feed(event):
            self._on_event(shown)
