"""Where candidates are tried, fastest way first. What a trial shows is never proof.

In order: a fork of the warm process that exchanges functions' code (or imports the edited
modules anew); a fork of the server that has only installed packages imported, with the edit laid
over the file; a fresh process on the edited workspace. Which one it was is recorded per trial.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..repo.testing.report import TestReport
from ..repo.testing.runner import TestRunner
from ..repo.testing.warm import Answer, Stage, WarmServer
from ..repo.testing.zygote import Zygote
from .baseline import Baseline
from .behaviour import MOST_VERSIONS, Behaviour
from .candidates import Candidate
from .cores import workers
from .gate import Gate
from .pace import Pace
from .source import ModuleSource
from .tracing import is_large
from .verdict import judge
from .workspace_edit import applied

SWAP, IMPORT, FORK, FRESH = "swap", "import", "fork", "fresh"

_LONG_SUITE_S = 60.0
"""Tests that take longer are not run before the search to see what can be believed."""
_FORK_START_S = 1.5
"""Importing the project and starting the framework in a forked child, on a busy machine."""
_GOOD = ("passed", "xfailed", "xpassed")
_EXACTLY = "passed"
_MOST_PROBED = 30
"""Tests per patch whose calls are compared."""
_PROBE_S = 8.0
_MOST_DEATHS = 5
"""Tests that take the warm process down unedited, before the rest is not believed either."""
_BLIND = ("starts", "reads")
"""What a test does that sees the files on disk, where an edit in memory is not."""
_DISTURBS = ("writes", "changes", "binds")


@dataclass(frozen=True)
class Trial:
    """What became of one candidate."""

    good: bool
    """Every stage ran and passed."""
    outcomes: tuple[dict[str, str], ...]
    """Per stage begun: test id -> outcome."""
    mode: str
    reached: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bad test -> the line of its own at which it ended, where that is known."""

    def passed(self, tests: Sequence[str]) -> frozenset[str]:
        """Which of some tests passed in any stage."""
        seen = {test for stage in self.outcomes for test, outcome in stage.items() if outcome == _EXACTLY}
        return frozenset(seen.intersection(tests))


class Validator:
    """Tries candidates on one baseline.

    Attributes:
        workers: how many trials may run at a time.
        steady: passing tests whose outcome here can be believed.
        modes: how many trials ran in which way.
        note: why the fastest way is not used, or empty.
        reached: failing test -> the line of its own at which it ends without any edit, where known.
    """

    def __init__(self, runner: TestRunner, baseline: Baseline) -> None:
        self._runner = runner
        self._baseline = baseline
        self._most = workers(runner.sandbox.spec.limits)
        self._warm = WarmServer(workers=self._most)
        self._zygote: Zygote | None = None
        self._gate = Gate()
        self._starting = asyncio.Lock()
        self._alone = False
        """Trials would disturb each other, so they run one at a time."""
        self._changers = False
        """Some tests change files of the repository."""
        self.workers = 1
        self.steady: frozenset[str] = baseline.passing - set(baseline.flaky)
        if is_large(baseline.report) and baseline.coverage:
            # The others never came near what may be edited. The proof runs them all.
            self.steady &= frozenset(baseline.coverage)
        self.modes: Counter[str] = Counter()
        self.note = ""
        self.reached: Mapping[str, int] = {}
        self._pace = Pace(baseline)
        self._edits_unseen = False
        """Targets start programs, which see the files on disk only."""
        self._believable = True
        """Forked runs show the same failures as fresh ones."""

    @classmethod
    async def open(cls, runner: TestRunner, baseline: Baseline) -> Validator:
        """Starts what trials need and finds out which tests can be believed in it."""
        made = cls(runner, baseline)
        try:
            await made._begin()
        except BaseException:
            await made.close()
            raise
        return made

    async def trial(
        self, candidate: Candidate, sources: Mapping[str, ModuleSource], stages: Sequence[Stage]
    ) -> Trial:
        """Runs the stages with the candidate, each only when all before were good.

        ``sources`` holds the files it edits.
        """
        answer = await self._in_warm(candidate, stages)
        if answer is not None and not answer.refused:
            trial = _trial(answer, stages, frozenset(self._baseline.targets))
            if not _is_blind(answer):
                self.modes[answer.mode] += 1
                return trial
            return await self._on_files(candidate, sources, stages)
        if answer is not None and answer.refused == "SyntaxError":
            return Trial(False, (), SWAP)
        if self._edits_unseen or not self._believable:
            return await self._on_files(candidate, sources, stages)
        zygote = await self._fork_server()
        if not zygote.forks:
            return await self._on_files(candidate, sources, stages)
        forked = await self._forked(zygote, candidate, stages)
        return forked if forked is not None else await self._on_files(candidate, sources, stages)

    async def compare(self, candidates: Sequence[Candidate], sources: Sequence[str]) -> Behaviour:
        """What patches do on the calls of the tests around them; empty where code cannot be exchanged."""
        compared = list(candidates[:MOST_VERSIONS])
        if not self._warm.ready or not compared:
            return Behaviour()
        near = dict.fromkeys(self._baseline.targets[:_MOST_PROBED])
        for candidate in compared:
            for part in candidate.parts:
                through = self._baseline.tests_through(part.path, range(part.line, part.end_line + 1))
                near.update(dict.fromkeys([test for test in through if test in self.steady][:_MOST_PROBED]))
        stage = self.stage(list(near), stop_first=False)
        stage = replace(stage, cpu_s=stage.cpu_s + _PROBE_S)
        probe = await self._warm.probe([each.by_path for each in compared], stage, sources)
        return Behaviour.of(compared, probe, self._baseline.passing)

    async def close(self) -> None:
        """Ends the helpers; files of the repository that tests have changed are as before again."""
        await self._warm.close()
        if self._zygote is not None:
            await self._zygote.close()
        # Always: what was cancelled has not told what it changed.
        await self._runner.workspace.restore(self._baseline.tree)

    # ------------------------------------------------------------ opening

    async def _begin(self) -> None:
        if self._baseline.broken:
            self.note = "test files cannot be imported: every candidate imports the project anew"
        elif not await self._warm.start(self._runner, self._files()):
            self.note = self._warm.note
        if self._warm.ready and not await self._warm_agrees():
            await self._warm.close()
        if not self._warm.ready:
            await self._fork_agrees()

    async def _warm_agrees(self) -> bool:
        """Runs targets and suite unedited: believes the failures, and the passes that repeat."""
        targets = self._baseline.targets
        missing = set(targets) - set(self._warm.ids)
        first = await self._warm.run({}, [self.stage(targets, stop_first=False)])
        if first is None or missing or not first.stages:
            self.note = "the failing tests do not run in the warm process"
            return False
        seen = first.stages[0]
        if any(seen.get(test) in _GOOD for test in targets):
            self.note = "forked runs differ from fresh ones here"
            return False
        if any("starts" in first.marks.get(test, ()) for test in targets):
            self.note = "the failing tests start programs, which see only files on disk"
            self._edits_unseen = True
            return False
        self.steady &= frozenset(self._warm.ids)
        self._note(first)
        if first.ended:
            self._pace.note(list(seen), first.duration_s)
        self.reached = first.reached
        if self._short() and self.steady:
            # Trials run the targets first, and not always the same tests before one another.
            order = self._ordered(self.steady)
            there = [test for test in targets if test in seen]
            self.steady &= await self._passing_unedited(order)
            order = [test for test in order if test in self.steady]
            self.steady &= await self._passing_unedited([*there, *reversed(order)])
        self.workers = 1 if self._alone else self._most
        return self._warm.ready

    def _files(self) -> list[str]:
        """The test files that trials need, where a large suite has many more; none: all."""
        if not is_large(self._baseline.report):
            return []
        wanted = self.steady.union(self._baseline.targets)
        return sorted({case.path for case in self._baseline.report.cases if case.id in wanted})

    def _short(self) -> bool:
        """Whether the tests that trials run take so little that they can be run to see what to believe."""
        cases = self._baseline.report.cases
        return sum(case.duration_s for case in cases if case.id in self.steady) <= _LONG_SUITE_S

    async def _passing_unedited(self, tests: Sequence[str]) -> frozenset[str]:
        """Tests that pass in this order in the warm process and see what happens in it."""
        passed: set[str] = set()
        left = list(tests)
        for _ in range(_MOST_DEATHS):
            answer = await self._warm.run({}, [self.stage(left, stop_first=False)]) if left else None
            if answer is None or not answer.stages:
                break
            self._note(answer)
            seen = answer.stages[0]
            if answer.ended:
                self._pace.note([test for test in left if test in seen], answer.duration_s)
            passed.update(test for test, outcome in seen.items() if outcome in _GOOD)
            passed -= answer.marked("starts")
            if answer.ended:
                break
            # The first one without an outcome took the process down, or the limit was up in it.
            left = [test for test in left if test not in seen][1:]
            await self._put_back()
        return frozenset(passed)

    def _note(self, answer: Answer) -> None:
        self._alone = self._alone or bool(answer.marked(*_DISTURBS))
        self._changers = self._changers or bool(answer.marked("changes"))

    async def _put_back(self) -> None:
        """The repository's files as they were: tests have changed some."""
        if self._changers:
            await self._runner.workspace.restore(self._baseline.tree)

    async def _fork_agrees(self) -> None:
        zygote = await self._fork_server()
        if not zygote.forks or not self._short():
            return
        suite = self._baseline.suite
        if is_large(self._baseline.report):
            suite = (*self._baseline.targets, *self._ordered(self.steady))
        result = await zygote.run(suite, timeout_s=self._pace.seconds(suite) + _FORK_START_S, fail_fast=False)
        passing = result.report.passing_ids()
        if passing & set(self._baseline.targets):
            self._believable = False
            self.note = "forked runs differ from fresh ones here: using fresh processes"
        elif result.report.complete:
            self.steady &= passing

    async def _fork_server(self) -> Zygote:
        async with self._starting:
            if self._zygote is None:
                zygote = Zygote()
                try:
                    await zygote.start(self._runner)
                except BaseException:
                    await zygote.close()
                    raise
                self._zygote = zygote
                self.note = self.note or zygote.note
        return self._zygote

    async def _in_warm(self, candidate: Candidate, stages: Sequence[Stage]) -> Answer | None:
        if not self._warm.ready:
            return None
        stages = [self._pace.in_warm(stage) for stage in stages]
        if not self._alone:
            async with self._gate.shared():
                answer = await self._warm.run(candidate.by_path, stages)
            if answer is not None:
                self._note(answer)
            if not self._alone:
                return answer
            # One of those that ran side by side may have disturbed another: once more, alone.
        async with self._gate.alone():
            await self._put_back()
            answer = await self._warm.run(candidate.by_path, stages)
            if answer is not None:
                self._note(answer)
                if answer.marked("changes") or not (answer.refused or answer.ended):
                    await self._put_back()
        return answer

    # ------------------------------------------------------------ the slower ways

    async def _forked(self, zygote: Zygote, candidate: Candidate, stages: Sequence[Stage]) -> Trial | None:
        """With the edit laid over the file; None when tests looked at the files on disk instead."""
        outcomes: list[dict[str, str]] = []
        good = True
        async with self._gate.alone():
            for stage in stages:
                result = await zygote.run(
                    stage.tests,
                    timeout_s=stage.cpu_s + _FORK_START_S,
                    fail_fast=stage.stop_first,
                    overlay=candidate.by_path,
                )
                if "changes" in result.kinds:
                    self._changers = self._alone = True
                    await self._put_back()
                if result.kinds.intersection(_BLIND):
                    # Once is enough when it is the targets that do it.
                    self._edits_unseen = self._edits_unseen or not outcomes
                    return None
                good = self._take(result.report, stage, outcomes)
                if not good:
                    break
        self.modes[FORK] += 1
        return Trial(good, tuple(outcomes), FORK)

    async def _on_files(
        self, candidate: Candidate, sources: Mapping[str, ModuleSource], stages: Sequence[Stage]
    ) -> Trial:
        """On the edited workspace, one candidate at a time."""
        zygote = await self._fork_server()
        mode = FORK if zygote.forks and self._believable else FRESH
        self.modes[mode] += 1
        outcomes: list[dict[str, str]] = []
        good = True
        async with self._gate.alone():
            with applied(self._runner.workspace, sources, candidate):
                for stage in stages:
                    good = self._take(await self._plain_run(zygote, mode, stage), stage, outcomes)
                    if not good:
                        break
            await self._put_back()
        return Trial(good, tuple(outcomes), mode)

    async def _plain_run(self, zygote: Zygote, mode: str, stage: Stage) -> TestReport:
        if mode == FORK:
            limit = stage.cpu_s + _FORK_START_S
            return (await zygote.run(stage.tests, timeout_s=limit, fail_fast=stage.stop_first)).report
        tests = sum(case.duration_s for case in self._baseline.report.cases)
        limit = stage.cpu_s + 2 * max(0.5, self._baseline.duration_s - tests)
        run = await self._runner.run(
            stage.tests, purpose="candidate", fail_fast=stage.stop_first, timeout_s=limit
        )
        return run.report

    def _take(self, report: TestReport, stage: Stage, outcomes: list[dict[str, str]]) -> bool:
        outcomes.append({case.id: case.outcome.value for case in report.cases})
        targets = set(self._baseline.targets)
        must_turn = [test for test in stage.tests if test in targets]
        return judge(report, must_turn, [test for test in stage.tests if test not in targets]).good

    # ------------------------------------------------------------ stages

    def stage(self, tests: Sequence[str], *, stop_first: bool = True) -> Stage:
        """A stage with a limit that follows from what the tests took before."""
        return self._pace.stage(self._baseline.in_company(tests), stop_first=stop_first)

    def _ordered(self, tests: frozenset[str]) -> list[str]:
        return [case.id for case in self._baseline.report.cases if case.id in tests]


def _trial(answer: Answer, stages: Sequence[Stage], targets: frozenset[str]) -> Trial:
    whole = answer.ended and len(answer.stages) == len(stages)
    good = whole and all(
        seen.get(test, "") in (_GOOD if test not in targets else (_EXACTLY,))
        for stage, seen in zip(stages, answer.stages, strict=True)
        for test in stage.tests
    )
    return Trial(good, tuple(dict(each) for each in answer.stages), answer.mode, answer.reached)


def _is_blind(answer: Answer) -> bool:
    """Whether what decides was shown by tests that looked at the files on disk."""
    blind = answer.marked(*_BLIND)
    if not blind:
        return False
    if "" in blind:
        return True
    bad = {test for seen in answer.stages for test, outcome in seen.items() if outcome not in _GOOD}
    return not bad - blind
