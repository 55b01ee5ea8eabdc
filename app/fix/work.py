"""The agent's part of the run: model, tools, limits, session; and the log of its attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...engine.chat import Effort
from ...engine.models import load_model
from ..agent.events import AgentEvent, Notice, StepStarted, ToolFinished, ToolProgress, ToolStarted
from ..agent.limits import Limit, MaxAnswer, MaxCost, MaxSteps, MaxTime, MaxTokens
from ..agent.loop import Agent, AgentOutcome
from ..agent.loop_guard import LoopGuard
from ..agent.permissions import Permissions
from ..agent.prompts import delimited, opening
from ..config.rules import permission_rules
from ..evidence import EvidenceLedger
from ..sessions import SessionWriter
from ..tools.base import ToolContext
from ..tools.registry import default_tools
from ..tools.repair import INTERRUPTED, SCRATCH
from ..tools.run_tests import recall
from .events import JobEvent, Listener
from .intake import Issue
from .options import FixOptions
from .reproduce import Reproduction
from .result import FixResult
from .stage import Stage

MAX_LOG_CHARS = 20_000
"""Of a CI log shown to a model: its end, where runners put what failed."""


@dataclass
class AttemptLog:
    """What was tried, for the result; filled from tool results' data, never from their text."""

    located: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    diffs: dict[str, str] = field(default_factory=dict[str, str])
    search: dict[str, Any] = field(default_factory=dict[str, Any])
    explanation: str = ""
    ambiguous: bool = False

    def see(self, event: ToolFinished) -> None:
        data = cast("dict[str, Any]", event.data) if isinstance(event.data, dict) else {}
        if event.name == "locate" and data.get("locations"):
            self.located = list(data["locations"])[:20]
        elif event.name == "repair" and data.get("status"):
            self._see_repair(data)
        elif event.name == "edit" and not event.is_error and data.get("path"):
            self.attempts.append(
                {
                    "name": f"edit {len(self.attempts) + 1}",
                    "summary": f"{data['path']} ({data.get('strategy', '')})",
                }
            )

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
        )
        # From here on the model acts: what it does to files that no patch holds is undone for the proof.
        await stage.workspace.mark_unrecorded()
        await recall(context, reproduction.before, reproduction.flaky)
        agent = Agent(
            model,
            default_tools(),
            context,
            session=session,
            limits=limits_of(options, deadline),
            permissions=Permissions.for_sandbox(
                stage.sandbox.describe(), rules=permission_rules(options.settings)
            ),
            on_event=lambda event: show_event(event, attempts, emit, tell),
        )
        messages = opening(
            _task(issue, log), target_tests=context.target_tests[:50], facts=_facts(stage, reproduction)
        )
        try:
            return await agent.run(messages, effort=cast("Effort", options.effort), seed=options.seed)
        finally:
            attempts.see_unfinished(context.scratch)
    finally:
        await model.close()


def limits_of(options: FixOptions, deadline: float) -> list[Limit]:
    """The limits that bound one run of the agent; ``deadline`` is a ``time.monotonic()`` value."""
    limits: list[Limit] = [MaxSteps(options.max_steps), MaxTime(max(1.0, deadline - time.monotonic()))]
    if options.max_tokens is not None:
        limits.append(MaxTokens(options.max_tokens))
    if options.max_cost_usd is not None:
        price_in, price_out = options.settings.price_of(options.model)
        limits.append(MaxCost(options.max_cost_usd, input_price=price_in, output_price=price_out))
    return [*limits, MaxAnswer(), LoopGuard()]


def _task(issue: Issue, log: str) -> str:
    parts = [issue.text] if issue.text else []
    if log:
        parts.append("Failing CI log (its end):\n" + delimited(log[-MAX_LOG_CHARS:], "LOG"))
    return "\n\n".join(parts)


def _facts(stage: Stage, reproduction: Reproduction) -> list[str]:
    environment = stage.environment
    facts = [
        f"tests run with {stage.tests.adapter.name}, Python {'.'.join(map(str, environment.version))}, "
        f"at {stage.sandbox.spec.workdir}",
    ]
    if reproduction.added:
        facts.append(
            f"all tests passed; {reproduction.added} was made of the issue's text and shows the problem."
            " It is no part of the patch and is put back for the proof"
        )
    if reproduction.flaky:
        facts.append("flaky tests, of no interest: " + ", ".join(reproduction.flaky[:10]))
    return facts


def show_event(
    event: AgentEvent, attempts: AttemptLog, emit: Listener, tell: Callable[[str, str], None]
) -> None:
    """Passes an agent event on to a door, with a line of progress where it is worth one."""
    if isinstance(event, ToolFinished):
        attempts.see(event)
    emit(JobEvent("agent", data=event.model_dump()))
    if isinstance(event, ToolProgress):
        tell("progress", event.text)
    elif isinstance(event, ToolStarted):
        tell("progress", event.name)
    elif isinstance(event, StepStarted):
        tell("progress", f"step {event.step}")
    elif isinstance(event, Notice):
        tell("warning" if event.level != "info" else "info", event.text)
