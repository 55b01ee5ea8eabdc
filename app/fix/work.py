"""The agent's part of the run: model, tools, limits, session; and the log of its attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from ..agent.limits import MaxAnswer, MaxCost, MaxSteps, MaxTime
from ..agent.loop import Agent, AgentOutcome
from ..agent.loop_guard import LoopGuard
from ..agent.permissions import Decision, Permissions, Rule
from ..agent.profiles import get_ready
from ..agent.prompts import delimited, opening
from ..agent.strategy import Strategy
from ..agent.tiers import EffortChoice
from ..evidence import EvidenceLedger
from ..permissions.grants import Grants
from ..sessions import SessionWriter
from ..telemetry import RunTelemetry
from ..tools.base import ToolContext
from ..tools.registry import default_tools
from ..tools.repair import INTERRUPTED, SCRATCH
from ..tools.run_tests import recall
from .events import JobEvent, Listener
from .extras import Extras, extras
from .intake import Issue
from .options import FixOptions
from .preloading import note_context, with_context
from .reproduce import Reproduction
from .result import FixResult
from .stage import Stage

_WEB_ALLOWED = Rule(Decision.ALLOW, tool="web_fetch", reason="--web allows it")
MAX_LOG_CHARS = 20_000
"""Of a CI log shown to a model: its end, where runners put what failed."""


@dataclass
class AttemptLog:
    """What was tried, for the result; filled from tool results' data, never from their text."""

    located: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    diffs: dict[str, str] = field(default_factory=dict[str, str])
    search: dict[str, Any] = field(default_factory=dict[str, Any])
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    explanation: str = ""
    ambiguous: bool = False
    tiers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def see_step(self, event: StepStarted) -> None:
        self.tiers.append({"step": event.step, "tier": event.effort, "reason": event.reason})

    def see(self, event: ToolFinished) -> None:
        data = cast("dict[str, Any]", event.data) if isinstance(event.data, dict) else {}
        if event.name == "locate" and data.get("locations"):
            self.located = list(data["locations"])[:20]
        elif event.name == "repair" and data.get("status"):
            self._see_repair(data)
        elif event.name in ("edit", "multi_edit", "write", "apply_patch") and not event.is_error:
            changed = [data] if data.get("path") else cast("list[dict[str, Any]]", data.get("files") or [])
            for file in changed:
                how = (
                    file.get("strategy") or ", ".join(file.get("strategies") or []) or file.get("action", "")
                )
                name = f"edit {len(self.attempts) + 1}"
                self.attempts.append({"name": name, "summary": f"{file['path']} ({how})"})

    def see_unfinished(self, scratch: Mapping[str, Any]) -> None:
        """What a search had found when it was cut off; ``scratch`` is the tools' memory."""
        data = scratch.get(SCRATCH)
        if isinstance(data, dict) and cast("dict[str, Any]", data).get("status") == INTERRUPTED:
            self._see_repair(cast("dict[str, Any]", data))

    def _see_repair(self, data: dict[str, Any]) -> None:
        number = sum(1 for attempt in self.attempts if attempt["name"].startswith("search")) + 1
        tried, generated = data.get("candidates_tried", 0), data.get("candidates_generated", 0)
        ending = f", ended by the {data['limit']} limit" if data.get("limit") else ""
        self.attempts.append(
            {
                "name": f"search {number}",
                "summary": f"{tried} of {generated} candidates tried{ending}: {data['status']}",
            }
        )
        self.search = {
            "candidates_tried": tried,
            "candidates_generated": generated,
            "limit": data.get("limit"),
            "confidence": data.get("confidence", 0.0),
            "modes": data.get("modes", {}),
            "workers": data.get("workers", 0),
            "ranker": data.get("ranker", "none: not asked"),
            "phases": data.get("phases", {}),
        }
        self.ambiguous = data["status"] == "ambiguous"
        patches = list(cast("list[dict[str, Any]]", data.get("patches") or []))
        if data["status"] == "fixed" and patches:
            self.explanation = str(patches[0].get("explanation", ""))
            patches = []
        patches += cast("list[dict[str, Any]]", data.get("alternatives") or [])
        for index, patch in enumerate(patches, start=1):
            name = f"search-{number}-{index:02d}"
            summary = f"{patch.get('family', '')}: {patch.get('explanation', '')}"
            if patch.get("difference"):
                summary += f" Compared with the first patch, {patch['difference']}."
            self.keep_diff(name, str(patch.get("diff", "")), summary)

    def keep_diff(self, name: str, diff: str, summary: str, *, best: bool = False) -> None:
        """An unverified diff for the attempts folder; the ``best`` one is listed before all others."""
        self.diffs[name] = diff
        kept = {"name": name, "summary": summary, "diff_file": f"attempts/{name}.diff"}
        self.attempts.insert(0 if best else len(self.attempts), kept)

    def into(self, result: FixResult) -> None:
        result.located, result.attempts, result.search = self.located, self.attempts, self.search
        result.context = self.context
        result.tiers = self.tiers


async def do_the_work(
    options: FixOptions,
    stage: Stage,
    reproduction: Reproduction,
    ledger: EvidenceLedger,
    attempts: AttemptLog,
    *,
    issue: Issue,
    log: str,
    deadline: float,
    session: SessionWriter,
    emit: Listener,
    tell: Callable[[str, str], None],
    telemetry: RunTelemetry,
) -> AgentOutcome:
    """Runs the agent on the stage."""
    model = load_model(options.model)
    try:
        context = ToolContext(
            workspace=stage.workspace,
            sandbox=stage.sandbox,
            tests=stage.tests,
            ledger=ledger,
            keep=session.keep,
            fetch=session.fetch,
            deadline=deadline,
            seed=options.seed,
            issue_text=issue.text,
            target_tests=(*reproduction.targets, *reproduction.target_files),
            max_candidates=options.max_candidates,
            lint=options.lint,
        )
        # From here on the model acts: what it does to files that no patch holds is undone for the proof.
        await stage.workspace.mark_unrecorded()
        await recall(context, reproduction.before, reproduction.flaky)
        async with extras(
            options, stage.repository, stage.workspace.root, _places(reproduction), tell
        ) as added:
            return await _converse(
                model, options, stage, reproduction, attempts, context, added,
                issue=issue, task=_task(issue, log), deadline=deadline, session=session, emit=emit, tell=tell,
                telemetry=telemetry,
            )  # fmt: skip
    finally:
        await model.close()


async def _converse(
    model: ChatModel,
    options: FixOptions,
    stage: Stage,
    reproduction: Reproduction,
    attempts: AttemptLog,
    context: ToolContext,
    added: Extras,
    *,
    issue: Issue,
    task: str,
    deadline: float,
    session: SessionWriter,
    emit: Listener,
    tell: Callable[[str, str], None],
    telemetry: RunTelemetry,
) -> AgentOutcome:
    tools = [*default_tools(web=options.web), *added.tools]
    telemetry.offered(tool.name for tool in tools)
    takes_tiers = model.capabilities.effort is not False
    await get_ready(model)

    def on_event(event: AgentEvent) -> None:
        telemetry.agent_event(event)
        _show(event, attempts, emit, tell, takes_tiers)

    agent = Agent(
        model,
        tools,
        context,
        session=session,
        limits=[
            MaxSteps(options.max_steps),
            MaxTime(max(1.0, deadline - time.monotonic())),
            MaxAnswer(),
            LoopGuard(),
            *([MaxCost(options.max_cost_usd)] if options.max_cost_usd else []),
            Strategy([tool.name for tool in tools]),
            *added.limits,
        ],
        permissions=Permissions.for_sandbox(
            stage.sandbox.describe(),
            rules=[*options.rules, *([_WEB_ALLOWED] if options.web else ()), *added.rules],
            mode=options.permission_mode,
            paths=stage.paths,
            grants=Grants(stage.repository),
        ),
        on_event=on_event,
    )
    messages = opening(
        task,
        target_tests=context.target_tests[:50],
        facts=_facts(stage, reproduction),
        guidance=added.guidance,
    )
    messages = await with_context(options, model, stage, reproduction, issue, messages, agent.tell)
    try:
        return await agent.run(messages, effort=cast("EffortChoice", options.effort), seed=options.seed)
    finally:
        attempts.see_unfinished(context.scratch)


def _places(reproduction: Reproduction) -> list[str]:
    """Files of the repository that the failures lead to: test files and those in their traces."""
    failing = reproduction.before.report.failing()
    found = [*reproduction.target_files, *(case.path for case in failing if case.path)]
    found += [frame.path for case in failing for frame in case.frames if frame.in_repository]
    return list(dict.fromkeys(found))[:200]


def _task(issue: Issue, log: str) -> str:
    parts = [issue.text] if issue.text else []
    if log:
        parts.append("Failing CI log (its end):\n" + delimited(log[-MAX_LOG_CHARS:], "LOG"))
    return "\n\n".join(parts)


def _facts(stage: Stage, reproduction: Reproduction) -> list[str]:
    environment = stage.environment
    language = (
        f"Python {'.'.join(map(str, environment.version))}" if environment.python else environment.origin
    )
    facts = [f"tests run with {stage.tests.adapter.name}, {language}, at {stage.sandbox.spec.workdir}"]
    if reproduction.added:
        facts.append(
            f"all tests passed; {reproduction.added} was made of the issue's text and shows the problem."
            " It is no part of the patch and is put back for the proof"
        )
    if reproduction.flaky:
        facts.append("flaky tests, of no interest: " + ", ".join(reproduction.flaky[:10]))
    return facts


def _show(
    event: AgentEvent,
    attempts: AttemptLog,
    emit: Listener,
    tell: Callable[[str, str], None],
    takes_tiers: bool,
) -> None:
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
    emit(JobEvent("agent", data=event.model_dump()))
    if isinstance(event, ToolProgress):
        tell("progress", event.text)
    elif isinstance(event, ToolStarted):
        tell("progress", event.name)
    elif isinstance(event, StepStarted):
        tell("progress", f"step {event.step}" + (f" ({event.effort}: {event.reason})" if takes_tiers else ""))
    elif isinstance(event, ModelNotice):
        tell("info", event.text)
    elif isinstance(event, Notice):
        tell("warning" if event.level != "info" else "info", event.text)
