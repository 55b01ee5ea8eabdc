"""The main job, in one sitting: stage, reproduce, work, verify, report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

from ...engine.models import load_model
from ...sandbox.base.errors import (
    BudgetExceeded,
    NotFixed,
    PermissionDenied,
    WhimbrelError,
)
from ..agent.loop import AgentOutcome
from ..evidence import EvidenceLedger
from ..licences import require_for_model
from ..repo.cilog import read_ci_log
from ..repo.environment import ProjectEnvironment
from ..sessions.files import record
from ..telemetry import RunTelemetry, open_telemetry
from .agents import Watch
from .attempts import AttemptLog
from .check import check_change
from .events import JobEvent, Listener
from .extras import check_extras
from .from_issue import reproduce_from_issue
from .intake import Issue, read_issue, read_log, repository_files
from .options import FixOptions
from .recording import Recording
from .reproduce import Reproduction, nothing_fails, reproduce
from .result import FixResult, run_summary
from .rundir import RunDirectory
from .stage import Stage, set_the_stage
from .verify import SILENCED, Verification, verify
from .work import do_the_work

_CLEAN_UP_S = 2.0
"""Of the run's time, for taking the stage down and writing the result ..."""
_ANSWER_S = 1.0
"""... and before that for tools to come to an answer by themselves; ..."""
_CLEAN_UP_SHARE = 0.05
"""... each at most this share of it."""
_KEEP_S = 2.0
_FINAL = "final"
"""The attempt that holds what was changed at the end."""


class FixJob:
    """One run. ``result`` is truthful at every moment, so it can be written whenever the run ends."""

    def __init__(self, options: FixOptions, run_id: str, listener: Listener) -> None:
        self.options = options
        self.result = FixResult(
            run_id=run_id, model=options.model, effort=options.effort, seed=options.seed,
            started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )  # fmt: skip
        self.attempts = AttemptLog()
        self.ledger = EvidenceLedger()
        self.recording: Recording | None = None
        self._listener = listener
        self._telemetry = RunTelemetry(options.model)
        self._stage: Stage | None = None
        self._reproduction: Reproduction | None = None
        self._phase_now = ""
        # What --max-time bounds is the whole command: taking the stage down and writing count too.
        now, seconds = time.monotonic() - options.spent_s, options.max_time_s
        self._deadline = now + seconds - min(_CLEAN_UP_S, _CLEAN_UP_SHARE * seconds)
        self._work_until = self._deadline - min(_ANSWER_S, _CLEAN_UP_SHARE * seconds)

    async def run(self, run: RunDirectory) -> None:
        """Does it all in ``run``'s folder; ``result`` says how it ended.

        Raises:
            WhimbrelError: what ended the run early; the result already carries it.
            asyncio.CancelledError: after everything running was ended.
        """
        clock = asyncio.timeout(max(0.0, self._deadline - time.monotonic()))
        try:
            try:
                async with clock:
                    await self._phases(run)
            except TimeoutError as error:
                if not clock.expired():
                    raise
                raise BudgetExceeded(
                    f"the time of --max-time was used up in the phase '{self._phase_now}'",
                    hint="raise --max-time",
                ) from error
        except asyncio.CancelledError:
            await self._keep_best()
            raise
        except WhimbrelError as error:
            await self._keep_best()
            self.result.end_with(error)
            raise
        finally:
            self.result.evidence = [row.to_json() for row in self.ledger.rows]
            self.attempts.into(self.result)
            if self._stage is not None:
                for note in self._stage.workspace.notes:
                    self.result.note(note)
                await self._record_files(self._stage)
                await self._close(self._stage)

    def measured(self) -> None:
        """Sends the measurements of the run, when its verdict is known; trouble with that is a note."""
        problem = self._telemetry.finish(self.result.status, self.result.timings_s)
        if problem:
            self.result.note(problem)

    async def _phases(self, run: RunDirectory) -> None:
        given = self.options.issue
        issue = Issue(given or "", "text") if self.options.issue_is_text else read_issue(given)
        log = read_log(self.options.log)
        with self._phase("set_up", "Set up"):
            require_for_model(self.options.model)
            load_model(self.options.model)  # a wrong name should not cost a set-up
            check_extras(self.options)
            self._telemetry = open_telemetry(self.options.model, self.options.settings.telemetry)
            self.ledger.listen(self._telemetry.evidence)
            self._stage = stage = await set_the_stage(self.options, run, self.ledger, self._tell)
            self._describe(stage)
        if self.options.check is not None:
            with self._phase("check", "Check"):
                limit = self._time_left(stage.tests.run_timeout_s)
                await check_change(stage, self.options.check, self.result.check, self._tell, timeout_s=limit)
        self._record(stage, issue)
        with self._phase("reproduce", "Reproduce"):
            stage.tests.run_timeout_s = self._time_left(stage.tests.run_timeout_s)
            wanted = stage.selection or self._named_by(log, stage)
            by_person = bool(stage.selection) and self.options.check is None
            reproduction = await reproduce(stage, wanted, self._tell, by_person=by_person)
            if issue.text and not reproduction.failing:
                reproduction = await self._from_issue(stage, reproduction, issue)
            self._before(reproduction)
        if not reproduction.failing and not issue.text:
            self._check_time("Work")
            raise nothing_fails(reproduction)
        self._reproduction = reproduction
        with self._phase("work", "Work"):
            outcome = await self._work(stage, reproduction, issue, log)
        with self._phase("verify", "Verify"):
            stage.tests.run_timeout_s = self._time_left(stage.tests.run_timeout_s)
            verification = await verify(stage, reproduction, self._tell)
            self._after(verification)
        self._conclude(outcome, reproduction, verification)

    async def _keep_best(self) -> None:
        """What was changed when the run ends before its verdict: an attempt, not verified."""
        stage, reproduction = self._stage, self._reproduction
        if stage is None or reproduction is None or _FINAL in self.attempts.diffs:
            return
        try:
            async with asyncio.timeout(_KEEP_S):
                diff = await stage.workspace.diff(reproduction.start)
        except (TimeoutError, WhimbrelError, OSError) as error:
            self._tell("warning", f"what was changed in the copy could not be kept: {error}")
            return
        if diff:
            text = diff.decode("utf-8", "surrogateescape")
            summary = "not verified: the run ended before that"
            self.attempts.keep_diff(_FINAL, text, summary, best=True)

    async def _record_files(self, stage: Stage) -> None:
        """The files as the run leaves them, for `whimbrel run --resume` to go on from."""
        if self.recording is None:
            return
        cap_bytes = self.options.settings.sessions.snapshots_mb << 20
        try:
            async with asyncio.timeout(_KEEP_S):
                await record(
                    stage.workspace, self.recording.session, cap_bytes=cap_bytes,
                    warn=lambda text: self._tell("info", text),
                )  # fmt: skip
        except (TimeoutError, WhimbrelError, OSError) as error:
            self._tell("info", f"the session does not hold the changed files: {error}")

    async def _close(self, stage: Stage) -> None:
        """Takes the stage down; trouble with that is told, but takes nothing from what was proved."""
        try:
            await stage.close()
        except (WhimbrelError, OSError) as error:
            text = error.one_line() if isinstance(error, WhimbrelError) else str(error)
            self._tell("warning", f"the clean-up was not complete: {text}")

    async def _from_issue(self, stage: Stage, reproduction: Reproduction, issue: Issue) -> Reproduction:
        found = await reproduce_from_issue(
            stage, reproduction, issue.text, self._tell, trusted=self.options.trust
        )
        self.result.reproduction = found.report
        self.attempts.located = found.places
        return found.reproduction

    async def _work(self, stage: Stage, reproduction: Reproduction, issue: Issue, log: str) -> AgentOutcome:
        assert self.recording is not None
        outcome = await do_the_work(
            self.options, stage, reproduction, self.ledger, issue=issue, log=log,
            deadline=self._work_until, session=self.recording.session,
            watch=Watch(self._listener, self._tell, self.attempts, self._telemetry),
        )  # fmt: skip
        self.result.claimed = outcome.final_text
        self.result.steps = outcome.steps
        self.result.usage = outcome.usage.model_dump()
        if time.monotonic() > self._work_until and outcome.error is not None:
            # It says what the time was spent on; the next phase could only say that there is none left.
            raise outcome.error
        return outcome

    def _conclude(self, outcome: AgentOutcome, reproduction: Reproduction, check: Verification) -> None:
        """The verdict. A verified patch stands, whatever ended the model's part of the run."""
        result = self.result
        if check.verdict.fixed:
            result.status, result.exit_code, result.message = "fixed", 0, check.verdict.reason
            result.patch = check.patch.decode("utf-8", "surrogateescape")
            result.explanation = self.attempts.explanation or outcome.final_text
            if reproduction.added:
                result.explanation += (
                    f" No test showed this before: {reproduction.added} was made of the issue."
                )
            if check.left_out:
                self.attempts.keep_diff(
                    "left-out",
                    check.left_out.decode("utf-8", "surrogateescape"),
                    "changed besides the patch; the proof ran without it",
                )
            if outcome.error is not None:
                result.note(
                    f"the model's part ended early ({outcome.error.one_line()}); the patch is verified"
                )
            return
        if check.patch:
            self.attempts.keep_diff(
                _FINAL, check.patch.decode("utf-8", "surrogateescape"), check.verdict.reason
            )
        if outcome.error is not None:
            raise outcome.error
        if not reproduction.failing:
            tried = "".join(f": {each}" for each in self.result.reproduction.get("remarks", [])[:1])
            error = NotFixed(
                f"the issue led to no failing test, so nothing can be verified{tried}"
                if not check.files
                else "something was changed, but no failing test shows the problem, so nothing is verified",
                hint="give a failing test (--tests), a CI log (--log), or code and what it should give",
            )
            status = "not_reproduced"
        elif check.verdict.reason == SILENCED:
            error = NotFixed(
                SILENCED, hint="say in the issue what it should give, or take attempts/final.diff as it is"
            )
            status = "ambiguous"
        elif self.attempts.ambiguous and not check.files:
            error = NotFixed(
                "patches pass all tests, and the evidence cannot tell whether one of them is right",
                hint="look at the attempts folder, or add a test that tells them apart",
            )
            status = "ambiguous"
        else:
            tried = self.attempts.search.get("candidates_tried")
            searched = f"the search tried {tried} small edits and none makes the failing tests pass"
            reason = check.verdict.reason
            if not check.files and self.attempts.explanation:
                reason = (
                    "the edit that helps lies in a file that no patch can hold (a content filter, Git LFS)"
                )
            elif not check.files and tried:
                reason = searched
            error = NotFixed(
                reason,
                hint="the best attempts are in the attempts folder" if self.attempts.diffs else "",
            )
            status = "denied" if outcome.denied and not check.files else "not_fixed"
            if status == "denied":
                raise PermissionDenied(f"the run needed something that is not allowed: {outcome.denied[0]}")
        result.end_with(error)
        result.status = status

    # ------------------------------------------------------------------ filling the result

    def _describe(self, stage: Stage) -> None:
        result, base = self.result, stage.workspace.base
        description = stage.sandbox.describe()
        result.repository = str(stage.repository)
        result.base_commit, result.base_tree = base.commit, base.tree
        result.dirty, result.branch = base.dirty, base.branch
        if self.options.start is not None:
            result.start = "index" if self.options.start.objects else "commit"
        elif self.options.revision is not None:
            result.start = "commit"
        result.sandbox = {
            "kind": description.kind,
            "isolated": description.isolated,
            "image": description.image,
            "image_digest": description.image_digest,
            "workdir": description.workdir,
            "warnings": list(description.warnings),
            "reasons": list(stage.choice.reasons),
        }
        environment = stage.environment
        result.environment = {
            "python": environment.python,
            "version": ".".join(map(str, environment.version)) if environment.python else "",
            "origin": environment.origin,
            "notes": list(environment.notes),
        }
        self._tell(
            "info",
            f"sandbox {description.kind}{'' if description.isolated else ' (no isolation)'}, "
            f"{_language(environment)}, "
            f"base {(base.commit or 'no commit')[:12]}{' + uncommitted changes' if base.dirty else ''}",
        )

    def _before(self, reproduction: Reproduction) -> None:
        result = self.result
        result.tests_before = run_summary(reproduction.before)
        result.target_tests = [*reproduction.targets, *reproduction.target_files]
        result.flaky_tests = list(reproduction.flaky)
        self._tell("info", f"before: {result.tests_before['summary']}")

    def _after(self, check: Verification) -> None:
        result = self.result
        result.end_tree = check.end_tree
        result.files = [{"path": f.path, "status": f.status, "is_test": f.is_test} for f in check.files]
        result.test_files_changed = list(check.test_files_changed)
        result.regressions = list(check.verdict.regressions)
        result.flaky_tests += list(check.flaky)
        run = check.suite_run or check.targets_run
        if run is not None:
            result.tests_after = run_summary(run)
            result.tests_after["ledger_rows"] = [
                row.number
                for each in (check.targets_run, check.suite_run)
                if each is not None
                for row in (each.rows or (each.row,))
            ]
            self._tell("info", f"after: {result.tests_after['summary']}")

    def _time_left(self, limit: float) -> float:
        """No test run may outlive the job's own limit."""
        return max(1.0, min(limit, self._deadline - time.monotonic()))

    def _record(self, stage: Stage, issue: Issue) -> None:
        title = (issue.text.strip() or "failing tests").splitlines()[0].lstrip("# ")[:120]
        self.recording = Recording.begin(
            self.options, stage.repository, title, self.result.run_id, self.ledger,
            lambda text: self._tell("warning", text),
        )  # fmt: skip
        self.result.session_id = self.recording.session.id

    def _named_by(self, log: str, stage: Stage) -> tuple[str, ...]:
        """The tests a CI log says failed."""
        if not log:
            return ()
        seen = read_ci_log(log, repository_files(stage.workspace.root))
        found = (*seen.ids(), *seen.broken_files)
        if not found:
            self._tell("warning", "the log names no failing test; every failing test is a target")
        return found

    def _tell(self, kind: str, text: str) -> None:
        if kind == "warning":
            self.result.note(text)
        self._listener(JobEvent(kind, text))

    def _check_time(self, title: str) -> None:
        if time.monotonic() > self._deadline:
            raise BudgetExceeded(
                f"the time of --max-time was used up before the phase '{title}'", hint="raise --max-time"
            )

    @contextmanager
    def _phase(self, name: str, title: str) -> Generator[None]:
        self._listener(JobEvent("phase", title, phase=name))
        self._phase_now = title
        self._check_time(title)
        begin = time.monotonic()
        try:
            yield
        finally:
            self.result.timings_s[name] = round(time.monotonic() - begin, 3)


def _language(environment: ProjectEnvironment) -> str:
    version = ".".join(map(str, environment.version))
    return f"Python {version} from {environment.origin}" if environment.python else environment.origin
