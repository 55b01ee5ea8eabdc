"""The agent of a run, the same for every door: model, tools, limits, permissions, and who follows it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from ...engine.chat import ChatModel
from ...engine.models import load_model
from ..agent.children import CHILD_EVENT
from ..agent.events import (
    AgentEvent,
    ContextCompacted,
    ContextLoaded,
    ModelNotice,
    Notice,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from ..agent.limits import Limit, MaxAnswer, MaxCost, MaxSteps, MaxTime, MaxTokens
from ..agent.loop import Agent
from ..agent.loop_guard import LoopGuard
from ..agent.permissions import Decision, Permissions, Rule
from ..agent.profiles import get_ready
from ..agent.strategy import Strategy
from ..agent.tiers import Task, TaskModel
from ..config import Settings
from ..context.settings import SHARE_VARIABLE, ContextSettings
from ..evidence import EvidenceLedger
from ..licences import require_for_model
from ..permissions.grants import Grants
from ..sessions import SessionWriter
from ..telemetry import RunTelemetry
from ..tools.base import Tool, ToolContext
from ..tools.registry import default_tools
from .attempts import AttemptLog
from .events import JobEvent, Listener
from .extras import Extras
from .options import FixOptions
from .preloading import note_context
from .stage import Stage

_WEB_ALLOWED = Rule(Decision.ALLOW, tool="web_fetch", reason="--web allows it")


@dataclass(frozen=True)
class Watch:
    """Who follows the agent: its door, the log of its attempts, and the measurements."""

    emit: Listener
    tell: Callable[[str, str], None]
    attempts: AttemptLog
    telemetry: RunTelemetry
    also: Callable[[AgentEvent], None] | None = None
    """Sees every event after the door."""


def tool_context(
    options: FixOptions,
    stage: Stage,
    ledger: EvidenceLedger,
    session: SessionWriter,
    deadline: float,
    *,
    issue_text: str,
    target_tests: tuple[str, ...] = (),
) -> ToolContext:
    """What the tools of a run work with; ``deadline`` is a ``time.monotonic()`` value."""
    return ToolContext(
        workspace=stage.workspace,
        sandbox=stage.sandbox,
        tests=stage.tests,
        ledger=ledger,
        keep=session.keep,
        fetch=session.fetch,
        deadline=deadline,
        seed=options.seed,
        issue_text=issue_text,
        target_tests=target_tests,
        max_candidates=options.max_candidates,
        lint=options.lint,
        ask=None if options.person is None else options.person.question,
        paths=stage.paths,
    )


async def make_agent(
    model: ChatModel,
    options: FixOptions,
    stage: Stage,
    context: ToolContext,
    added: Extras,
    *,
    session: SessionWriter,
    deadline: float,
    watch: Watch,
    wrap: Callable[[Tool], Tool] = lambda tool: tool,
    tasks: Mapping[Task, TaskModel] | None = None,
) -> Agent:
    """The agent; ``wrap`` sees each default tool, and those of ``added`` come after them.

    Raises:
        ModelError: the endpoint was asked what it can do and cannot be used.
    """
    tasks = tasks or {}
    models = [model, *(task.model for task in tasks.values() if task.model is not None)]
    for each in models:
        await get_ready(each)
    settings = context_settings(options.settings, models)
    window = settings.window or model.context_window
    person = options.person
    built_in = default_tools(interactive=person is not None, web=options.web, window=window)
    offered = [*(wrap(tool) for tool in built_in), *added.tools]
    watch.telemetry.offered(tool.name for tool in offered)
    takes_tiers = model.capabilities.effort is not False

    def on_event(event: AgentEvent) -> None:
        watch.telemetry.agent_event(event)
        show_event(event, watch, takes_tiers)
        if watch.also is not None:
            watch.also(event)

    return Agent(
        model,
        offered,
        context,
        session=session,
        limits=[*limits_of(options, deadline), Strategy([tool.name for tool in offered]), *added.limits],
        permissions=Permissions.for_sandbox(
            stage.sandbox.describe(),
            rules=[*options.rules, *([_WEB_ALLOWED] if options.web else ()), *added.rules],
            mode=options.permission_mode,
            paths=stage.paths,
            grants=Grants(stage.repository),
        ),
        on_event=on_event,
        ask=None if person is None else person.permission,
        window=settings,
        tasks=tasks,
    )


@asynccontextmanager
async def task_models(settings: Settings, model: ChatModel) -> AsyncGenerator[dict[Task, TaskModel]]:
    """The models and efforts that the settings want for kinds of steps; closed at the end.

    Raises:
        UsageError, ConfigError: a name that is no model.
    """
    wanted = settings.model.tasks
    entries: tuple[tuple[Task, Any], ...] = (
        ("routing", wanted.routing),
        ("planning", wanted.planning),
        ("patching", wanted.patching),
    )
    opened: dict[str, ChatModel] = {model.name: model}
    try:
        tasks: dict[Task, TaskModel] = {}
        for task, entry in entries:
            if entry.name and model.name != "embedded" and entry.name not in opened:
                require_for_model(entry.name)
                opened[entry.name] = load_model(entry.name)
            other = opened.get(entry.name) if entry.name else None
            if other is not None or entry.effort:
                tasks[task] = TaskModel(other, entry.effort)
        yield tasks
    finally:
        for each in opened.values():
            if each is not model:
                await each.close()


def context_settings(settings: Settings, models: Sequence[ChatModel] = ()) -> ContextSettings:
    """How the window is used: the environment before the settings; of several models the smallest."""
    given = ContextSettings.from_environ()
    known = [each.context_window for each in models if each.context_window]
    if len(models) > 1 and known and not given.window:
        given = replace(given, window=min(known))
    if not os.environ.get(SHARE_VARIABLE, "").strip():
        given = replace(given, compact_at=settings.context.compact_at)
    return given


def limits_of(options: FixOptions, deadline: float) -> list[Limit]:
    """The limits that bound one run of the agent; ``deadline`` is a ``time.monotonic()`` value."""
    limits: list[Limit] = [MaxSteps(options.max_steps), MaxTime(max(1.0, deadline - time.monotonic()))]
    if options.max_tokens is not None:
        limits.append(MaxTokens(options.max_tokens))
    if options.max_cost_usd is not None:
        price_in, price_out = options.settings.price_of(options.model)
        limits.append(MaxCost(options.max_cost_usd, input_price=price_in, output_price=price_out))
    return [*limits, MaxAnswer(), LoopGuard()]


def show_event(event: AgentEvent, watch: Watch, takes_tiers: bool) -> None:
    """Passes an agent event on to the door, with a line of progress where it is worth one."""
    attempts, tell = watch.attempts, watch.tell
    if isinstance(event, ToolFinished):
        attempts.see(event)
    elif isinstance(event, ToolProgress) and event.phase == CHILD_EVENT:
        inner = cast("dict[str, Any]", event.data or {})
        if inner.get("kind") == "tool_finished":
            attempts.see(ToolFinished.model_validate(inner))
    elif isinstance(event, ContextLoaded | ContextCompacted):
        note_context(event, attempts.context)
        tell("info", event.text)
    elif isinstance(event, StepStarted) and takes_tiers:
        attempts.see_step(event)
    watch.emit(JobEvent("agent", data=event.model_dump()))
    if isinstance(event, ToolProgress):
        tell("progress", event.text)
    elif isinstance(event, ToolStarted):
        tell("progress", f"tool {event.name}")
    elif isinstance(event, StepStarted) and takes_tiers:
        tell("progress", f"step {event.step} ({event.effort}: {event.reason})")
    elif isinstance(event, ModelNotice):
        tell("info", event.text)
    elif isinstance(event, Notice):
        tell("warning" if event.level != "info" else "info", event.text)
