"""The search itself: candidates in order, each tested in stages, until a limit or enough is known."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .baseline import Baseline
from .candidates import Candidate
from .limits import CANDIDATES, TIME, Clock, Limits
from .novelty import Novelty
from .source import ModuleSource
from .validate import Stage, Trial, Validator
from .workspace_edit import encodable

_REPORT_EVERY_S = 0.5
_AHEAD = 2
"""Trials started beyond those that can run, so that no worker waits for the next."""

_Place = tuple[str, int, int]
"""Path, first and last line of what is edited in it."""


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
    """Tries candidates.

    Trials run side by side, their results are looked at in the order of the candidates: with the
    same candidates the outcome is the same however many run at a time.

    Args:
        sources: the files candidates edit.
        baseline: what failed and passed before.
        validator: where tests run.
        state: filled while running.
        report: called now and then, and at every plausible patch.
    """

    def __init__(
        self,
        sources: Mapping[str, ModuleSource],
        baseline: Baseline,
        validator: Validator,
        state: SearchState,
        report: Callable[[SearchState], None],
    ) -> None:
        self._sources = sources
        self.baseline = baseline
        self._validator = validator
        self._state = state
        self._report = report
        self._novelty = Novelty(sources)
        self._reported = 0.0
        self._after_first = 0
        self._passing_stages: dict[tuple[_Place, ...], list[Stage]] = {}

    async def run(self, candidates: Iterable[Candidate], limits: Limits, clock: Clock) -> None:
        """Goes through the candidates; what it found is in the state. May be called again with more."""
        state = self._state
        new = self._new(candidates)
        flight: deque[tuple[Candidate, asyncio.Task[Trial]]] = deque()
        window = self._validator.workers + (_AHEAD if self._validator.workers > 1 else 0)
        try:
            while True:
                while len(flight) < window and (candidate := next(new, None)) is not None:
                    flight.append((candidate, asyncio.create_task(self._trial(candidate))))
                if not flight:
                    return
                candidate, task = flight.popleft()
                if self._over(candidate, limits, clock):
                    task.cancel()
                    return
                try:
                    async with asyncio.timeout(max(0.0, clock.search_until - time.monotonic())):
                        trial = await task
                except TimeoutError:
                    state.limit = TIME
                    return
                state.tried += 1
                if trial.good:
                    state.plausible.append(candidate)
                    self._reported = 0.0
                else:
                    self._note_partial(candidate, trial)
                self._tell()
        finally:
            for _, task in flight:
                task.cancel()
            await asyncio.gather(*(task for _, task in flight), return_exceptions=True)

    async def passes(self, candidate: Candidate) -> bool:
        """Whether the targets turn green and nothing that passed before fails."""
        return (await self._trial(candidate)).good

    def _over(self, candidate: Candidate, limits: Limits, clock: Clock) -> bool:
        """Whether the search ends before this candidate."""
        state = self._state
        if state.plausible:
            first = state.plausible[0]
            near = candidate.score >= limits.neighbour_scores[first.harm] * first.score
            if self._after_first >= limits.neighbours or not near:
                return True
            self._after_first += 1
        if not clock.searching():
            state.limit = TIME
            return True
        if state.tried >= limits.max_candidates:
            state.limit = CANDIDATES
            return True
        return False

    def _new(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        for candidate in candidates:
            if self._novelty.is_new(candidate) and encodable(self._sources, candidate):
                yield candidate

    async def _trial(self, candidate: Candidate) -> Trial:
        return await self._validator.trial(candidate, self._sources, self._stages(candidate))

    def _stages(self, candidate: Candidate) -> list[Stage]:
        """The first target, the other targets, the tests through the edited lines, everything else."""
        make, targets = self._validator.stage, self.baseline.targets
        stages = [make(targets[:1])]
        if targets[1:]:
            stages.append(make(targets[1:], stop_first=False))
        places = tuple((part.path, part.line, part.end_line) for part in candidate.parts)
        if places not in self._passing_stages:
            self._passing_stages[places] = self._passing_through(places)
        return stages + self._passing_stages[places]

    def _passing_through(self, places: tuple[_Place, ...]) -> list[Stage]:
        steady = self._validator.steady
        known: set[str] = set()
        for path, first, last in places:
            known |= steady.intersection(self.baseline.tests_through(path, range(first, last + 1)))
        near = [case.id for case in self.baseline.report.cases if case.id in known]
        rest = [case.id for case in self.baseline.report.cases if case.id in steady and case.id not in known]
        return [self._validator.stage(tests) for tests in (near, rest) if tests]

    def _note_partial(self, candidate: Candidate, trial: Trial) -> None:
        green = trial.passed(self.baseline.targets)
        if 0 < green < len(self.baseline.targets):
            self._state.partial.append((green, candidate))

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            self._report(self._state)
