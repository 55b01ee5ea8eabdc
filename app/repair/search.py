"""The search itself: candidates in order, each tested in stages, until a limit or enough is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...sandbox.workspace import Workspace
from ..repo.testing.report import Outcome
from .baseline import Baseline
from .candidates import Candidate, Novelty
from .executors import Executor
from .limits import CANDIDATES, TIME, Clock, Limits
from .source import ModuleSource
from .verdict import judge
from .workspace_edit import applied, encodable

_SLOWER = 4.0
"""A candidate may take this many times what the tests took before."""
_GRACE_S = 1.0
_HUNG_TEST_S = 5.0
"""What a test that ended by its limit is taken to need once it is repaired."""
_REPORT_EVERY_S = 0.5


@dataclass
class SearchState:
    """What the search knows so far; readable at any moment, also after a cancellation."""

    generated: int = 0
    tried: int = 0
    plausible: list[Candidate] = field(default_factory=list[Candidate])
    partial: list[tuple[int, Candidate]] = field(default_factory=list[tuple[int, Candidate]])
    """Candidates that turned some targets green, with how many."""
    limit: str | None = None


class Search:
    """Tries candidates on the workspace.

    Args:
        workspace: the copy that is edited and always restored.
        sources: the files candidates edit.
        baseline: what failed and passed before.
        steady: passing tests whose outcome in the executor can be believed.
        executor: where tests run.
        state: filled while running.
        report: called now and then, and at every plausible patch.
    """

    def __init__(
        self,
        workspace: Workspace,
        sources: Mapping[str, ModuleSource],
        baseline: Baseline,
        steady: frozenset[str],
        executor: Executor,
        state: SearchState,
        report: Callable[[SearchState], None],
    ) -> None:
        self._workspace = workspace
        self._sources = sources
        self._baseline = baseline
        self._steady = steady
        self._executor = executor
        self._state = state
        self._report = report
        self._novelty = Novelty(sources)
        self._reported = 0.0
        self._clock: Clock | None = None

    async def run(self, candidates: Sequence[Candidate], limits: Limits, clock: Clock) -> None:
        """Goes through the candidates; what it found is in the state."""
        state = self._state
        self._clock = clock
        state.generated = len(candidates)
        after_first = 0
        for candidate in candidates:
            if state.plausible:
                first = state.plausible[0]
                near = candidate.score >= limits.neighbour_scores[first.harm] * first.score
                if after_first >= limits.neighbours or not near:
                    return
                after_first += 1
            if not clock.searching():
                state.limit = TIME
                return
            if state.tried >= limits.max_candidates:
                state.limit = CANDIDATES
                return
            source = self._sources[candidate.path]
            if not self._novelty.is_new(candidate) or not encodable(source, candidate):
                continue
            state.tried += 1
            if await self.passes(candidate):
                state.plausible.append(candidate)
                self._reported = 0.0
            self._tell()

    async def passes(self, candidate: Candidate) -> bool:
        """Whether the targets turn green and nothing that passed before fails."""
        with applied(self._workspace, self._sources[candidate.path], candidate):
            return await self._targets(candidate) and await self._others(candidate)

    async def _targets(self, candidate: Candidate) -> bool:
        targets = self._baseline.targets
        first = targets[:1]
        report = await self._executor.run(first, stop_first=True, limit_s=self._time_for(first))
        if not judge(report, first, ()).good:
            return False
        rest = targets[1:]
        if not rest:
            return True
        report = await self._executor.run(rest, stop_first=False, limit_s=self._time_for(rest))
        verdict = judge(report, rest, ())
        if verdict.still_bad:
            self._state.partial.append((len(targets) - len(verdict.still_bad), candidate))
        return verdict.good

    async def _others(self, candidate: Candidate) -> bool:
        lines = range(candidate.line, candidate.end_line + 1)
        near = [test for test in self._baseline.tests_through(candidate.path, lines) if test in self._steady]
        everything = len(self._baseline.passing)
        if near and len(near) <= everything // 2:
            report = await self._executor.run(near, stop_first=True, limit_s=self._time_for(near))
            if not judge(report, (), near).good:
                return False
        if not everything:
            return True
        suite = self._baseline.suite
        report = await self._executor.run(suite, stop_first=False, limit_s=self._time_for(suite))
        return judge(report, self._baseline.targets, self._steady).good

    def _time_for(self, tests: Sequence[str]) -> float:
        known = self._baseline.report.by_id()
        total = 0.0
        for test in tests:
            case = known.get(test)
            if case is None:
                total += self._baseline.duration_s  # a whole file that could not be collected
            elif case.outcome is Outcome.TIMEOUT:
                total += _HUNG_TEST_S
            else:
                total += case.duration_s
        limit = _SLOWER * total + _GRACE_S
        return limit if self._clock is None else min(limit, self._clock.left() + _GRACE_S)

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            self._report(self._state)
