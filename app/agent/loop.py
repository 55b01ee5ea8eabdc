"""The agent loop: ask the model, keep its answer verbatim, run its calls, append their results, repeat.

It ends with an answer that calls nothing, or with a limit, a denial, or an error.
Data flows one way: what happens goes to ``on_event`` and to the session, nothing comes back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...engine.chat import ChatModel, Message, StepDiscarded, Usage
from ...sandbox.base.errors import (
    BudgetExceeded,
    LoopDetected,
    ModelError,
    WhimbrelError,
)
from ..context.facts import hasher
from ..context.keeper import ContextKeeper
from ..context.settings import ContextSettings
from ..tools.base import Tool, ToolContext, spec_of
from .children import Children
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
from .history import EventLog, History, StepBuilder, clean_text, image_message
from .limits import Limit, RunState, out_of_time
from .permissions import Permissions
from .signals import cancellation
from .streams import closing
from .tiers import EffortChoice, Task, TaskModel, Tier, TierScheduler
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
        session: EventLog,
        limits: Sequence[Limit],
        permissions: Permissions,
        on_event: Callable[[AgentEvent], None],
        ask: Ask | None = None,
        window: ContextSettings | None = None,
        tasks: Mapping[Task, TaskModel] | None = None,
    ) -> None:
        """``tasks``: another model or effort for kinds of steps; the rest is ``model``'s."""
        self.outcome: AgentOutcome | None = None
        """Set when ``run`` ends in any way, also by cancellation."""
        self._model = model
        self._tasks = dict(tasks or {})
        self._specs = [spec_of(tool) for tool in tools]
        self._children = Children(model, tools, permissions, ask, session, limits)
        context = replace(context, sees_images=lambda: model.capabilities.images, children=self._children)
        self._context = context
        self._session = session
        self._limits = limits
        self._on_event = on_event
        self._cleaner = StreamCleaner()
        self._calls = ToolCalls(tools, context, permissions, self._emit, ask)
        self._denials = Denials()
        self._window = window or ContextSettings.from_environ()

    async def run(
        self,
        messages: Sequence[Message],
        *,
        past: Sequence[Message] = (),
        effort: EffortChoice = "high",
        seed: int = 0,
    ) -> AgentOutcome:
        """Runs to the end; errors of the tree become the outcome, cancellation is passed on.

        ``past`` is what the session holds already of this conversation; ``effort`` "auto" leaves
        the thinking tier of each step to the scheduler.

        Raises:
            asyncio.CancelledError: everything running was ended and recorded before.
        """
        state = RunState(deadline=self._context.deadline, notice=lambda text: self._emit(Notice(text=text)))
        self._children.begin(state, effort, seed)
        history = History(self._session, messages, past=past)
        keeper = self._keeper(state)
        text, error = "", WhimbrelError("the run ended by an internal error")
        try:
            text, error = await self._converse(history, keeper, state, effort, seed), None
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

    def tell(self, event: AgentEvent) -> None:
        """Records and shows something that happened around the conversation."""
        self._emit(event)

    async def _converse(
        self, history: History, keeper: ContextKeeper, state: RunState, effort: EffortChoice, seed: int
    ) -> str:
        for limit in self._limits:
            limit.on_start(state)
        tiers = TierScheduler(effort, self._context.target_tests, self._tasks)
        while True:
            for limit in self._limits:
                limit.before_step(state)
            await keeper.fit(history, seed=seed, deadline=state.deadline)
            state.step += 1
            tier = tiers.next()
            try:
                step = await self._ask_model(history, keeper, state, tier, seed)
            except ModelError as error:
                # Once: a second refusal of the smaller prompt is the end.
                if not await keeper.overflowed(history, error, seed=seed, deadline=state.deadline):
                    raise
                step = await self._ask_model(history, keeper, state, tier, seed)
            if step.empty:
                # An answer lost in thinking is asked for once more with less thinking, then given up.
                if not tiers.lost_answer(step.reason, step.usage):
                    raise _no_answer(step)
                self._emit(StepDiscarded(reason=f"no answer ({step.reason}); asking with less thinking"))
                continue
            tiers.answer_came()
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
            tiers.see(answered)
            self._denials.after_step(answered)
            shown = image_message((one.result.name, one.images) for one in answered)
            if shown is not None:
                history.append(shown)

    async def _ask_model(
        self, history: History, keeper: ContextKeeper, state: RunState, tier: Tier, seed: int
    ) -> StepBuilder:
        """Streams one step into a builder; the deadline of the run cuts it."""
        self._emit(StepStarted(step=state.step, effort=tier.effort, reason=tier.reason, window=keeper.window))
        step = StepBuilder()
        left = None if state.deadline is None else max(0.0, state.deadline - time.monotonic())
        clock = asyncio.timeout(left)
        try:
            async with clock:
                asked = self._tasks.get(tier.task, TaskModel()).model or self._model
                stream = asked.stream(
                    history.view,
                    self._specs,
                    effort=tier.effort,
                    max_output_tokens=_least(keeper.answer_limit(history), tier.output_tokens),
                    seed=seed,
                )
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
        guess = keeper.estimate(history, step.partial()) if step.usage is None else 0
        keeper.reported(history, step.usage)
        state.usage = state.usage.plus(step.usage, guess)
        return step

    def _keeper(self, state: RunState) -> ContextKeeper:
        def spent(usage: Usage | None, estimate: int) -> None:
            state.usage = state.usage.plus(usage, estimate)

        return ContextKeeper(
            self._model,
            self._specs,
            settings=self._window,
            present=hasher(self._context.workspace.root),
            clean=clean_text,
            emit=self._emit,
            spent=spent,
        )

    def _record(self, history: History, results: list[Answered], answered: Answered) -> None:
        """Appends one result, with the remarks of the limits, before anything else can happen."""
        part, loop = answered.result, None
        if answered.call.remark:
            part = part.model_copy(update={"text": f"{part.text}\n{answered.call.remark}"})
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


def _no_answer(step: StepBuilder) -> ModelError:
    if step.reason == "content_filter":
        return ModelError(
            "the model's provider refused to answer (finish reason: content_filter)",
            hint="another model or provider may answer",
        )
    hint = "raise the server's output limit, or choose a lower --effort" if step.reason == "length" else ""
    return ModelError(f"the model gave no answer (finish reason: {step.reason})", hint=hint)


def _least(limit: int | None, wanted: int | None) -> int | None:
    """What fits the window, where a tier asks for more than that."""
    return min(limit, wanted) if limit is not None and wanted is not None else limit or wanted
