"""One turn: stage, the files as the conversation left them, the agent, the files as it leaves them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from ...engine.chat import Message
from ...engine.models import load_model
from ...engine.unseen import NOTICE
from ...sandbox.base.errors import BudgetExceeded, EnvironmentBroken, ToolError, WhimbrelError
from ...sandbox.workspace import find_repository
from ..agent.events import AgentEvent, ToolFinished, ToolStarted
from ..agent.loop import AgentOutcome
from ..agent.tiers import EffortChoice
from ..evidence import EvidenceLedger
from ..fix.agents import Watch, make_agent, task_models, tool_context
from ..fix.attempts import AttemptLog
from ..fix.events import JobEvent, Listener
from ..fix.extras import extras
from ..fix.options import FixOptions
from ..fix.rundir import RunDirectory
from ..fix.stage import Stage, set_the_stage
from ..fix.work import stage_fact
from ..licences import require_for_model
from ..sessions.files import Checkpoints, Restored, put_back
from ..telemetry import RunTelemetry, open_telemetry
from ..tools.base import PermissionClass, Tool, ToolArguments, ToolContext, ToolResult
from .options import TalkOptions, read_prompt
from .prompts import first_turn, next_turn
from .recording import Chosen, TalkRecording, begin, choose
from .result import TurnResult

_CLEAN_UP_S = 2.0
_CLEAN_UP_SHARE = 0.05
"""Of the time, for recording the files and taking the stage down."""
_KEEP_S = 10.0
"""After a signal or the end of the time: so long what the turn changed may take to be recorded."""


class Turn:
    """``result`` is truthful at every moment, so it can be written whenever the turn ends."""

    def __init__(self, options: TalkOptions, run_id: str, listener: Listener) -> None:
        self.talk = options
        self.options: FixOptions = options.base
        self.result = TurnResult(
            run_id=run_id, model=options.base.model, effort=options.base.effort, seed=options.base.seed,
            started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )  # fmt: skip
        self.attempts = AttemptLog()
        self.ledger = EvidenceLedger()
        self.recording: TalkRecording | None = None
        self._listener = listener
        self._telemetry = RunTelemetry(options.base.model)
        self._stage: Stage | None = None
        self._chosen: Chosen | None = None
        self._checkpoints: Checkpoints | None = None
        self._files_recorded = False
        self._changes = ""
        self._changing = False
        now, seconds = time.monotonic() - options.base.spent_s, options.base.max_time_s
        self._deadline = now + seconds - min(_CLEAN_UP_S, _CLEAN_UP_SHARE * seconds)

    async def run(self, run: RunDirectory) -> None:
        """Does it all in ``run``'s folder; ``result`` says how it ended.

        Raises:
            WhimbrelError: what ended the turn early; the result already carries it.
            asyncio.CancelledError: after everything running was ended.
        """
        clock = asyncio.timeout(max(0.0, self._deadline - time.monotonic()))
        try:
            try:
                async with clock:
                    await self._turn(run)
            except TimeoutError as error:
                if not clock.expired():
                    raise
                raise BudgetExceeded("the time of --max-time was used up", hint="raise --max-time") from error
        except WhimbrelError as error:
            self.result.end_with(error)
            raise
        finally:
            await self._leave()

    def measured(self) -> None:
        """Sends the measurements of the turn; trouble with that is a note."""
        problem = self._telemetry.finish(self.result.status, self.result.timings_s)
        if problem:
            self.result.note(problem)

    async def _turn(self, run: RunDirectory) -> None:
        prompt = read_prompt(self.talk.prompt)
        with self._phase("set_up", "Set up"):
            repository = await find_repository(self.options.repository)
            self._chosen = chosen = choose(self.talk, repository, lambda text: self._tell("warning", text))
            if chosen.writer is not None:
                self.recording = TalkRecording(
                    chosen.store, chosen.writer
                )  # however it ends, it is given free
            model_name = self.options.model if self.talk.model_given or not chosen.model else chosen.model
            self.result.model = model_name
            require_for_model(model_name)
            await load_model(model_name).close()  # a wrong name should not cost a set-up
            self._telemetry = open_telemetry(model_name, self.options.settings.telemetry)
            self.ledger.listen(self._telemetry.evidence)
            self._stage = stage = await set_the_stage(self.options, run, self.ledger, self._tell)
            self._describe(stage)
            recording = begin(
                chosen, title=prompt.splitlines()[0][:120], repository=stage.repository, model=model_name,
                warn=lambda text: self._tell("warning", text), new_id=self.talk.new_id,
            )  # fmt: skip
            self.recording = recording
            self._started(stage, recording, chosen, model_name)
            restored = await put_back(
                stage.workspace, chosen.conversation, recording.session.fetch, wanted=self.talk.files
            )
            for remark in restored.remarks:
                self._tell("warning", remark)
            self.result.moved_on = restored.moved_on
            cap_bytes = self.options.settings.sessions.snapshots_mb << 20
            self._checkpoints = Checkpoints(
                stage.workspace, recording.session, chosen.conversation.states, cap_bytes
            )
        with self._phase("work", "Work"):
            outcome = await self._converse(stage, recording, chosen, prompt, model_name, restored)
        self.result.answer = self.result.claimed = outcome.final_text
        self.result.steps, self.result.usage = outcome.steps, outcome.usage.model_dump()
        await self._record_files()
        if outcome.error is not None:
            raise outcome.error
        self.result.status, self.result.exit_code = "answered", 0
        self.result.message = self._evidence_line()
        self.result.patch, self.attempts.diffs = self._changes, {}

    async def _converse(
        self,
        stage: Stage,
        recording: TalkRecording,
        chosen: Chosen,
        prompt: str,
        model_name: str,
        restored: Restored,
    ) -> AgentOutcome:
        session, past = recording.session, chosen.conversation.messages(model_name)
        model, images = load_model(model_name), self.talk.images
        try:
            context = tool_context(
                self.options, stage, self.ledger, session, self._deadline, issue_text=prompt
            )
            root = stage.workspace.root
            async with (
                task_models(self.options.settings, model) as tasks,
                extras(self.options, stage.repository, root, (), self._tell) as added,
            ):
                agent = await make_agent(
                    model, self.options, stage, context, added, session=session,
                    deadline=self._deadline, wrap=_tolerant, tasks=tasks,
                    watch=Watch(
                        self._listener, self._tell, self.attempts, self._telemetry, self._on_event
                    ),
                )  # fmt: skip
                if images and model.capabilities.images is False:
                    self._tell("warning", f"{model_name}: {NOTICE}")
                messages: Sequence[Message] = (
                    [next_turn(prompt, restored.remarks, images)]
                    if past
                    else first_turn(prompt, [stage_fact(stage)], added.guidance, images)
                )
                effort = cast("EffortChoice", self.options.effort)
                return await agent.run(messages, past=past, effort=effort, seed=self.options.seed)
        finally:
            await model.close()

    def _on_event(self, event: AgentEvent) -> None:
        if isinstance(event, ToolStarted):
            self._changing = event.permission in ("write", "execute")
        elif isinstance(event, ToolFinished) and self._changing and self._checkpoints is not None:
            self._checkpoints.wanted()

    # ------------------------------------------------------------------ the end, whatever it is

    async def _leave(self) -> None:
        self.result.evidence = [row.to_json() for row in self.ledger.rows]
        stage = self._stage
        if stage is None:
            return
        try:
            async with asyncio.timeout(_KEEP_S):
                await self._record_files()
        except (TimeoutError, WhimbrelError, OSError) as error:
            self._tell("warning", f"what was changed in the copy could not be kept: {error}")
        for note in stage.workspace.notes:
            self.result.note(note)
        try:
            await stage.close()
        except (WhimbrelError, OSError) as error:
            self._tell("warning", f"the clean-up was not complete: {error}")

    async def _record_files(self) -> None:
        """Once, at the end of the agent's part: the state goes to the session, the diff to the result."""
        stage, checkpoints = self._stage, self._checkpoints
        if self._files_recorded or stage is None or checkpoints is None:
            return
        self._files_recorded = True
        workspace = stage.workspace
        patch = await checkpoints.final(lambda text: self._tell("warning", text))
        self.result.end_tree = await workspace.snapshot()
        self._changes = patch.decode("utf-8", "surrogateescape")
        files = await workspace.changed_files()
        self.result.files = [{"path": f.path, "status": f.status, "is_test": f.is_test} for f in files]
        self.result.test_files_changed = [file.path for file in files if file.is_test]
        self.result.tests = [
            {
                "ledger_row": row.number,
                "exit_code": row.exit_code,
                "counts": _counts(row.outcomes.values()),
                "on_final_tree": row.tree == self.result.end_tree,
            }
            for row in self.ledger.rows
            if row.outcomes and row.fresh_process
        ]
        if self._changes:
            self.attempts.keep_diff("final", self._changes, "not verified: what the turn changed", best=True)

    def _evidence_line(self) -> str:
        if not self.result.files:
            return "nothing was changed"
        last = next((run for run in reversed(self.result.tests) if run["on_final_tree"]), None)
        if last is None:
            return "files were changed; no test ran on the final state"
        counts = ", ".join(f"{number} {name}" for name, number in last["counts"].items())
        return (
            f"files were changed; the last tests on the final state: {counts} (evidence {last['ledger_row']})"
        )

    # ------------------------------------------------------------------ filling the result

    def _describe(self, stage: Stage) -> None:
        result, base, description = self.result, stage.workspace.base, stage.sandbox.describe()
        result.repository = str(stage.repository)
        result.base_commit, result.base_tree = base.commit, base.tree
        result.dirty, result.branch = base.dirty, base.branch
        result.sandbox = {
            "kind": description.kind,
            "isolated": description.isolated,
            "image": description.image,
            "image_digest": description.image_digest,
            "workdir": description.workdir,
            "warnings": list(description.warnings),
        }
        self._tell("info", f"sandbox {description.kind}{'' if description.isolated else ' (no isolation)'}")

    def _started(self, stage: Stage, recording: TalkRecording, chosen: Chosen, model: str) -> None:
        options, base = self.options, stage.workspace.base
        self.result.session_id = recording.session.id
        self.result.continued = chosen.info is not None
        recording.session.append(
            "turn_started",
            {
                "run_id": self.result.run_id, "repository": str(stage.repository),
                "revision": options.revision, "model": model, "effort": options.effort,
                "sandbox": options.sandbox, "seed": options.seed,
                "base_commit": base.commit, "base_tree": base.tree,
            },
        )  # fmt: skip
        for row in self.ledger.rows:
            recording.session.evidence(row)
        self.ledger.listen(recording.session.evidence)
        self._tell("info", f"session {recording.session.id}{' continued' if chosen.info else ''}")

    def _tell(self, kind: str, text: str) -> None:
        if kind == "warning":
            self.result.note(text)
        self._listener(JobEvent(kind, text))

    @contextmanager
    def _phase(self, name: str, title: str) -> Generator[None]:
        self._listener(JobEvent("phase", title, phase=name))
        begun = time.monotonic()
        try:
            yield
        finally:
            self.result.timings_s[name] = round(time.monotonic() - begun, 3)


def _tolerant(tool: Tool) -> Tool:
    return _Tolerant(tool) if tool.name == "run_tests" else tool


class _Tolerant:
    """A tool for which a broken environment is news for the model, not the end of the conversation."""

    name: ClassVar[str] = "run_tests"
    arguments: ClassVar[type[ToolArguments]]
    permission: ClassVar[PermissionClass]

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.arguments = tool.arguments  # pyright: ignore[reportAttributeAccessIssue]
        self.permission = tool.permission  # pyright: ignore[reportAttributeAccessIssue]

    async def run(self, context: ToolContext, arguments: Any) -> ToolResult:
        try:
            return await self._tool.run(context, arguments)
        except EnvironmentBroken as error:
            raise ToolError(f"the tests cannot run here: {error.one_line()}") from error


def _counts(outcomes: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts
