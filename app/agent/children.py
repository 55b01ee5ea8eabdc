"""Sub-agents: a run inside a run, with a history of its own, never more rights or budget than its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...engine.chat import ChatModel, Message, system, user
from ..tools.base import Progress, Tool, ToolContext
from .events import TRANSIENT, AgentEvent, Notice, RunFinished, StepStarted, ToolFinished, ToolStarted
from .history import EventLog
from .limits import Limit, MaxAnswer, MaxCost, MaxSteps, MaxTime, MaxTokens, RunState
from .permissions import Permissions
from .prompts import SYSTEM
from .tiers import EffortChoice

if TYPE_CHECKING:
    from .loop import AgentOutcome
    from .tool_calls import Ask

__all__ = ["CHILD_EVENT", "ChildTask", "Children"]

CHILD_EVENT = "sub_agent"
"""Kind of the session's events that belong to a sub-agent: ``{"call_id", "kind", "event"}``."""

_OWN = ("files_read", "todo")
"""What a sub-agent does not share: it has not seen what its parent has seen, and plans for itself."""
_SHARED: tuple[str, ...] = ("bash_jobs", "run_tests")

_TASK = """\
You work on one part of a larger job, for another agent that sees nothing of what you do but your last \
answer. Do exactly this, and end with an answer without tool calls that says what you found or changed \
(paths and lines), what shows it, and what is left open:

"""


@dataclass(frozen=True)
class ChildTask:
    """What a sub-agent is to do, and its limits."""

    text: str
    tools: tuple[str, ...]
    """Names; those of the parent it may use."""
    max_steps: int
    max_tokens: int | None = None
    max_seconds: float | None = None


class Children:
    """The sub-agents of one run, one at a time."""

    def __init__(
        self,
        model: ChatModel,
        tools: Sequence[Tool],
        permissions: Permissions,
        ask: Ask | None,
        session: EventLog,
        limits: Sequence[Limit],
    ) -> None:
        self.tools = tuple(tools)
        self._model = model
        self._permissions = permissions
        self._ask = ask
        self._session = session
        self._limits = limits
        self._state = RunState()
        self._effort: EffortChoice = "high"
        self._seed = 0
        self._lock = asyncio.Lock()

    def begin(self, state: RunState, effort: EffortChoice, seed: int) -> None:
        """The parent's run begins; its state gets what sub-agents use."""
        self._state, self._effort, self._seed = state, effort, seed

    async def run(self, task: ChildTask, context: ToolContext) -> AgentOutcome:
        """Runs one to its end. ``context`` is that of the parent's call.

        Raises:
            asyncio.CancelledError: everything running was ended and recorded before.
        """
        from .loop import Agent
        from .loop_guard import LoopGuard
        from .strategy import Strategy

        async with self._lock:
            tools = [tool for tool in self.tools if tool.name in task.tools]
            limits: list[Limit] = [_Within(self._state, self._limits), MaxSteps(task.max_steps), MaxAnswer()]
            if task.max_tokens is not None:
                limits.append(MaxTokens(task.max_tokens))
            if task.max_seconds is not None:
                limits.append(MaxTime(task.max_seconds))
            for name in _SHARED:
                context.scratch.setdefault(name, {})
            scratch = {name: value for name, value in context.scratch.items() if name not in _OWN}
            agent = Agent(
                self._model,
                tools,
                replace(context, scratch=scratch),
                session=_ChildLog(self._session, context.call_id),
                limits=[*limits, LoopGuard(), Strategy([tool.name for tool in tools])],
                permissions=self._permissions,
                on_event=lambda event: _report(event, context.progress),
                ask=self._ask,
            )
            try:
                return await agent.run(_messages(task.text), effort=self._effort, seed=self._seed)
            finally:
                if "repair" in scratch:
                    context.scratch["repair"] = scratch["repair"]
                if agent.outcome is not None:
                    self._state.step += agent.outcome.steps
                    self._state.usage = self._state.usage.joined(agent.outcome.usage)


def _messages(text: str) -> tuple[Message, Message]:
    return system(SYSTEM), user(_TASK + text)


class _Within(Limit):
    """The limits of the parent hold for what both use together."""

    name = "parent"

    def __init__(self, parent: RunState, limits: Sequence[Limit]) -> None:
        self._parent = parent
        self._limits = [one for one in limits if isinstance(one, MaxSteps | MaxTime | MaxTokens | MaxCost)]

    def before_step(self, state: RunState) -> None:
        both = RunState(
            step=self._parent.step + state.step,
            usage=self._parent.usage.joined(state.usage),
            deadline=self._parent.deadline,
            notice=self._parent.notice,
        )
        for limit in self._limits:
            limit.before_step(both)


@dataclass(frozen=True)
class _ChildLog:
    """Records a sub-agent in its parent's session, marked so that it is no part of the parent's history."""

    parent: EventLog
    call_id: str

    def append(self, kind: str, payload: Any) -> int:
        return self.parent.append(CHILD_EVENT, {"call_id": self.call_id, "kind": kind, "event": payload})

    def payload(self, seq: int) -> Any:
        return self.parent.payload(seq)["event"]

    def keep(self, data: bytes, media: str) -> str:
        return self.parent.keep(data, media)

    @property
    def dropped(self) -> int:
        return self.parent.dropped


def _report(event: AgentEvent, progress: Callable[[Progress], None]) -> None:
    """Shows doors what a sub-agent does; its words appear in its answer."""
    if event.kind in TRANSIENT and event.kind != "tool_progress":
        return
    text = event.kind
    if isinstance(event, ToolStarted):
        text = f"sub-agent: {event.name}"
    elif isinstance(event, ToolFinished):
        text = f"sub-agent: {event.name} {'failed' if event.is_error else 'done'}"
    elif isinstance(event, StepStarted):
        text = f"sub-agent: step {event.step}"
    elif isinstance(event, RunFinished):
        text = f"sub-agent: {event.status}"
    elif isinstance(event, Notice):
        text = f"sub-agent: {event.text}"
    progress(Progress(CHILD_EVENT, text, data=event.model_dump()))
