"""The agent's part of the main job: what it is told, and its run on the stage."""

from __future__ import annotations

from typing import cast

from ...engine.models import load_model
from ..agent.loop import AgentOutcome
from ..agent.prompts import delimited, opening
from ..agent.tiers import EffortChoice
from ..evidence import EvidenceLedger
from ..sessions import SessionWriter
from ..tools.run_tests import recall
from .agents import Watch, make_agent, task_models, tool_context
from .extras import extras
from .intake import Issue
from .options import FixOptions
from .preloading import with_context
from .reproduce import Reproduction
from .stage import Stage

MAX_LOG_CHARS = 20_000
"""Of a CI log shown to a model: its end, where runners put what failed."""


async def do_the_work(
    options: FixOptions,
    stage: Stage,
    reproduction: Reproduction,
    ledger: EvidenceLedger,
    *,
    issue: Issue,
    log: str,
    deadline: float,
    session: SessionWriter,
    watch: Watch,
) -> AgentOutcome:
    """Runs the agent on the stage."""
    model = load_model(options.model)
    if options.model == "embedded" and not stage.environment.python:
        watch.tell("warning", "the embedded model repairs Python code only; name another one with --model")
    try:
        targets = (*reproduction.targets, *reproduction.target_files)
        context = tool_context(
            options, stage, ledger, session, deadline, issue_text=issue.text, target_tests=targets
        )
        # From here on the model acts: what it does to files that no patch holds is undone for the proof.
        await stage.workspace.mark_unrecorded()
        await recall(context, reproduction.before, reproduction.flaky)
        files = _places(reproduction)
        async with (
            task_models(options.settings, model) as tasks,
            extras(options, stage.repository, stage.workspace.root, files, watch.tell) as added,
        ):
            agent = await make_agent(
                model,
                options,
                stage,
                context,
                added,
                session=session,
                deadline=deadline,
                watch=watch,
                tasks=tasks,
            )
            messages = opening(
                _task(issue, log),
                target_tests=targets[:50],
                facts=_facts(stage, reproduction),
                guidance=added.guidance,
            )
            messages = await with_context(options, model, stage, reproduction, issue, messages, agent.tell)
            try:
                effort = cast("EffortChoice", options.effort)
                return await agent.run(messages, effort=effort, seed=options.seed)
            finally:
                watch.attempts.see_unfinished(context.scratch)
    finally:
        await model.close()


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
    facts = [stage_fact(stage)]
    if reproduction.added:
        facts.append(
            f"all tests passed; {reproduction.added} was made of the issue's text and shows the problem."
            " It is no part of the patch and is put back for the proof"
        )
    if reproduction.flaky:
        facts.append("flaky tests, of no interest: " + ", ".join(reproduction.flaky[:10]))
    return facts


def stage_fact(stage: Stage) -> str:
    """How and where tests run, in one sentence for the model."""
    environment = stage.environment
    language = (
        f"Python {'.'.join(map(str, environment.version))}" if environment.python else environment.origin
    )
    return f"tests run with {stage.tests.adapter.name}, {language}, at {stage.sandbox.spec.workdir}"
