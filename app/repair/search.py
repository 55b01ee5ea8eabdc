"""The search itself: candidates in order, each tested in stages, until a limit or enough is known."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..repo.testing.report import Outcome
from .baseline import Baseline
from .candidates import Candidate
from .family import Family
from .limits import CANDIDATES, TIME, Clock, Limits
from .novelty import Novelty
from .source import ModuleSource
from .trust import trust_of
from .validate import Stage, Trial, Validator
from .workspace_edit import encodable

_REPORT_EVERY_S = 0.5
_AHEAD = 2
"""Trials started beyond those that can run, so that no worker waits for the next."""

_MOST_TELLING = 5
"""Targets of the first stage. Each costs about a millisecond, a trial with one of them ten."""
_SLOW_S = 0.5
"""With coverage and with its traceback written; no quick test takes that long, on a busy machine either."""

_Place = tuple[str, int, int]
"""Path, first and last line of what is edited in it."""


@dataclass(frozen=True)
class Partial:
    """A candidate that turns some of the targets green."""

    candidate: Candidate
    green: frozenset[str]
    """Those targets, of the ones that ran."""
    breaks: bool | None = None
    """Whether tests through the edited lines that passed before fail now; None while nobody looked."""


@dataclass
class SearchState:
    """What the search knows so far; readable at any moment, also after a cancellation."""

    generated: int = 0
    tried: int = 0
    plausible: list[Candidate] = field(default_factory=list[Candidate])
    partial: list[Partial] = field(default_factory=list[Partial])
    further: list[Candidate] = field(default_factory=list[Candidate])
    """Candidates with which a target still fails, but at a later line of the test."""
    limit: str | None = None
    hurried: bool = False
    """The clock cut something short on the way: on a faster machine the outcome could be another."""

    @property
    def ended_by(self) -> str | None:
        """The limit that decided about the outcome; None when everything was looked at that should be."""
        return TIME if self.hurried else self.limit


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

    Attributes:
        telling: the targets that every candidate runs, whether it turns the first one green or not.
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
        self.telling = _telling(baseline)

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

    async def look_at_partial(self, most: int, clock: Clock) -> None:
        """Finds out more about the likeliest partial candidates nobody looked at: all that they turn green,
        and whether they break something."""
        state = self._state
        new = [number for number, each in enumerate(state.partial) if each.breaks is None]
        new.sort(key=lambda number: (-state.partial[number].candidate.score, number))
        size = self._validator.workers + 1
        for start in range(0, min(most, len(new)), size):
            if not clock.searching():
                return
            chosen = new[start : min(start + size, most)]
            seen = await asyncio.gather(*(self._whole(state.partial[number]) for number in chosen))
            for number, partial in zip(chosen, seen, strict=True):
                state.partial[number] = partial

    async def _whole(self, partial: Partial) -> Partial:
        make, targets = self._validator.stage, self.baseline.targets
        near = self._near(_places(partial.candidate))
        stages = [*([make(near)] if near else []), make(targets, stop_first=False)]
        trial = await self._validator.trial(partial.candidate, self._sources, stages)
        breaks = len(trial.outcomes) < len(stages)
        return Partial(partial.candidate, partial.green | trial.passed(targets), breaks)

    def _over(self, candidate: Candidate, limits: Limits, clock: Clock) -> bool:
        """Whether the search ends before this candidate."""
        state = self._state
        if state.plausible:
            best = max(state.plausible, key=lambda each: each.score * trust_of(each))
            # The less the best so far can be believed, the longer the look around.
            trust = trust_of(best) / Family.trust
            near = candidate.score >= limits.neighbour_scores[best.harm] * best.score * trust
            if self._after_first * trust >= limits.neighbours or not near:
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
        """Targets that tell most, the other targets, the tests through the edited lines, everything else."""
        make, telling = self._validator.stage, set(self.telling)
        stages = [make(self.telling, stop_first=False)]
        others = [test for test in self.baseline.targets if test not in telling]
        if others:
            stages.append(make(others, stop_first=False))
        places = _places(candidate)
        if places not in self._passing_stages:
            self._passing_stages[places] = self._passing_through(places)
        return stages + self._passing_stages[places]

    def _passing_through(self, places: tuple[_Place, ...]) -> list[Stage]:
        steady = self._validator.steady
        near = self._near(places)
        known = set(near)
        rest = [case.id for case in self.baseline.report.cases if case.id in steady and case.id not in known]
        return [self._validator.stage(tests) for tests in (near, rest) if tests]

    def _near(self, places: tuple[_Place, ...]) -> list[str]:
        """Tests that passed and ran lines of these places, in the order of the suite."""
        known: set[str] = set()
        for path, first, last in places:
            known.update(self.baseline.tests_through(path, range(first, last + 1)))
        known &= self._validator.steady
        return [case.id for case in self.baseline.report.cases if case.id in known]

    def _note_partial(self, candidate: Candidate, trial: Trial) -> None:
        green = trial.passed(self.baseline.targets)
        if green and len(green) < len(self.baseline.targets):
            self._state.partial.append(Partial(candidate, green))
        elif self._gets_further(trial):
            self._state.further.append(candidate)

    def _gets_further(self, trial: Trial) -> bool:
        before = self._validator.reached
        return any(line > before.get(test, line) for test, line in trial.reached.items())

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            self._report(self._state)


def _places(candidate: Candidate) -> tuple[_Place, ...]:
    return tuple((part.path, part.line, part.end_line) for part in candidate.parts)


def _telling(baseline: Baseline) -> tuple[str, ...]:
    """The first target, and quick ones, of other test functions first: which of them a candidate turns green
    tells whether it is one half of the repair, for little more than the first one alone costs."""
    targets = baseline.targets
    seconds = {case.id: case.duration_s for case in baseline.failing if case.outcome is not Outcome.TIMEOUT}
    by_function: dict[str, list[str]] = {}
    for test in targets:
        by_function.setdefault(test.partition("[")[0], []).append(test)
    # One of each function, then the second ones, and so on.
    rounds = itertools.zip_longest(*by_function.values())
    ordered = [test for each in rounds for test in each if test is not None]
    quick = [test for test in ordered[1:] if seconds.get(test, _SLOW_S) < _SLOW_S]
    chosen = {ordered[0], *quick[: _MOST_TELLING - 1]}
    return tuple(test for test in targets if test in chosen)
