"""Synthesis as a series of experiments: forced outcomes first, then expressions that yield them.

For every suspicious expression, the likeliest first:

1. A condition is forced to be always true, always false, or the opposite at one of its
   first evaluations; another expression is given values out of a finite pool. Does the
   failing test pass?
2. If so, the smallest expressions are built that yield the forced outcome there and what
   the program had at every evaluation seen in passing tests. For conditions also the old
   one with one more clause.
3. If not, or where an expression is evaluated too often, expressions that differ from the
   old one in failing tests only are grouped by how they differ; one of each group is tried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...repo.testing.report import TestCase
from ...tools.base import ToolContext
from ..baseline import Baseline
from ..candidates import Candidate
from ..localise import Localisation
from ..runtime_types import alike
from ..scope import ModuleView
from ..source import Edit
from ..values import NONE, Spot, observe
from . import forcing
from .calls import calls
from .expected import expected_values, parts_of
from .goals import Found, alternatives, condition_goal, conditions, outcome, value_goal, values
from .samples import Row, Samples, gather, value_text
from .sites import CONDITION, Site, find_sites
from .terms import known, value_key
from .writing import candidate_for

Evaluate = Callable[[str, tuple[Edit, ...], Sequence[str]], Awaitable[bool]]
"""``evaluate(path, edits, tests)``: whether all the tests pass with the file edited so."""

_MOST_FAILING = 4
_MOST_PASSING = 24
_MOST_FLIPS = 6
_MOST_FORCED = 2
"""Evaluations of one expression that are given values; more often evaluated ones are not forced."""
_MOST_VALUES = 9
_MOST_BUILT = 10
"""Expressions that are tried for one forced outcome."""
_MOST_GIVEN = 6
"""Candidates per site: what comes later is further from the program as it is."""
_ENOUGH = 2
"""Forced outcomes that are followed up per site."""


@dataclass
class Budget:
    """What synthesis may use, and afterwards what it has used.

    ``evaluations`` bounds runs of tests and makes the result repeatable; ``seconds`` is
    wall time for everything, the observing run included, and the last resort.
    """

    evaluations: int = 400
    seconds: float | None = None
    sites: int = 30
    per_site: int = 30
    after_first: int = 80
    """Evaluations once an expression is found that keeps what passing tests saw."""
    used: int = 0
    looked_at: int = 0
    forced: int = 0
    """Sites where a forced outcome made the failing test pass."""
    late: bool = False
    """The clock ended it, or cut what it observes: the result depends on the machine's speed."""
    _until: float | None = field(default=None, repr=False)
    _shortened: bool = field(default=False, repr=False)

    def start(self) -> None:
        if self._until is None and self.seconds is not None:
            self._until = time.monotonic() + self.seconds

    def found(self) -> None:
        """The first good expression: from here on only a look around."""
        if not self._shortened:
            self._shortened = True
            self.evaluations = min(self.evaluations, self.used + self.after_first)

    def left(self) -> bool:
        if self.used >= self.evaluations:
            return False
        in_time = self._until is None or time.monotonic() < self._until
        self.late = self.late or not in_time
        return in_time

    def seconds_left(self) -> float | None:
        return None if self._until is None else max(1.0, self._until - time.monotonic())


async def synthesise(
    context: ToolContext,
    localisation: Localisation,
    baseline: Baseline,
    evaluate: Evaluate,
    budget: Budget | None = None,
) -> AsyncIterator[Candidate]:
    """Candidates that turn all failing tests green, as they are found; nothing else is claimed.

    The caller decides when it has seen enough, and checks the passing tests. One fresh run
    of the failing and of some passing tests observes values; everything else goes through
    ``evaluate``. The order is the same for the same input as long as ``evaluations`` ends it.

    Raises:
        EnvironmentBroken: the interpreter does not start.
        SandboxDied: the sandbox went away.
    """
    budget = budget or Budget()
    budget.start()
    cases = [case for case in baseline.failing if baseline.coverage.get(case.id)] or list(baseline.failing)
    if not cases or baseline.broken:
        return  # what cannot be imported has no values
    if not budget.left():
        return
    sites = _reached(find_sites(localisation.sources, localisation.lines, 8 * budget.sites), baseline, cases)
    sites = sites[: budget.sites]
    tests = [case.id for case in cases[:_MOST_FAILING]] + _witnesses(sites, baseline)
    spots = [spot for site in sites for spot in (site.spot, *(Spot.of(site.path, e) for e in site.pieces))]
    seen = await observe(context.tests, tests, spots, timeout_s=budget.seconds_left())
    budget.late = budget.late or not seen.whole
    views = {path: ModuleView(localisation.sources[path]) for path in sorted({s.path for s in sites})}
    pool = expected_values(cases)
    given: set[tuple[str, tuple[Edit, ...]]] = set()
    for site in sites:
        if not budget.left():
            return
        samples = gather(site, seen, [case.id for case in cases])
        if not samples.failing:
            continue
        budget.looked_at += 1
        await asyncio.sleep(0)  # enumeration computes for a while; others may go on in between
        attempt = _Attempt(samples, views[site.path], evaluate, budget, baseline.targets, pool)
        async for candidate in attempt.run():
            if (candidate.path, candidate.edits) not in given:
                given.add((candidate.path, candidate.edits))
                yield candidate


def _reached(sites: Sequence[Site], baseline: Baseline, cases: Sequence[TestCase]) -> list[Site]:
    """Sites on lines that every failing test runs: an edit elsewhere cannot turn them all green."""
    if not baseline.coverage:
        return list(sites)
    kept: list[Site] = []
    for site in sites:
        lines = range(site.spot.line, site.spot.end_line + 1)
        statement = site.source.statement_of(site.node)
        first = lines if statement is None else range(statement.lineno, site.spot.end_line + 1)
        ran = (baseline.coverage.get(case.id, {}).get(site.path, frozenset[int]()) for case in cases)
        if all(any(line in executed for line in first) for executed in ran):
            kept.append(site)
    return kept


def _witnesses(sites: Sequence[Site], baseline: Baseline) -> list[str]:
    """Passing tests that show the sites at work: several for each site, not too many in all."""
    chosen: dict[str, None] = {}
    through = [
        baseline.tests_through(site.path, range(site.spot.line, site.spot.end_line + 1)) for site in sites
    ]
    for rank in range(_MOST_PASSING):
        for tests in through:
            if rank < len(tests) and len(chosen) < _MOST_PASSING:
                chosen[tests[rank]] = None
    return list(chosen)


class _Attempt:
    """All experiments on one site."""

    def __init__(
        self,
        samples: Samples,
        view: ModuleView,
        evaluate: Evaluate,
        budget: Budget,
        targets: Sequence[str],
        expected: Sequence[Any],
    ) -> None:
        self._samples = samples
        self._site = samples.site
        self._view = view
        self._evaluate = evaluate
        self._budget = budget
        self._targets = tuple(targets)
        self._expected = expected
        self._used = 0
        self._given = 0
        self._tried: set[str] = set()
        # The failing test that evaluates the site least often says most about it.
        self._test = min(samples.failing, key=lambda test: samples.hits[test])
        self._rows = samples.failing[self._test]
        self._others: list[tuple[Row, Any]] = []

    async def run(self) -> AsyncIterator[Candidate]:
        steps = self._condition() if self._site.kind == CONDITION else self._value()
        async for candidate in steps:
            yield candidate

    # -- conditions ------------------------------------------------------------------

    async def _condition(self) -> AsyncIterator[Candidate]:
        boolean = self._site.role not in ("condition", "clause")
        worked = 0
        async for forced in self._forced_outcomes(self._test, _MOST_FLIPS):
            if not worked:
                others = [each async for each in self._in_other_tests()]
                self._others = [row for rows in others for row in rows]
            worked += 1
            goal = condition_goal(self._samples, [*forced, *self._others])
            built = conditions(self._samples, goal, self._view, boolean=boolean)
            async for candidate in self._first_that_work(built, _MOST_BUILT):
                yield candidate
            if worked >= _ENOUGH:
                break
        self._budget.forced += bool(worked)
        if not worked and len(self._rows) > 1:
            async for candidate in self._groups(condition=True, boolean=boolean):
                yield candidate

    async def _in_other_tests(self) -> AsyncIterator[list[tuple[Row, Any]]]:
        """The first forced outcome that works in each of some more failing tests."""
        for test in list(self._samples.failing)[:_MOST_FAILING]:
            if test != self._test and self._samples.hits[test] <= _MOST_FORCED:
                if self._site.kind == CONDITION:
                    steps = self._forced_outcomes(test, _MOST_FORCED)
                else:
                    steps = self._forced_values(test, set())
                async for forced in steps:
                    yield forced
                    break

    async def _forced_outcomes(self, test: str, most: int) -> AsyncIterator[list[tuple[Row, Any]]]:
        """What forced outcomes that make a test pass say about its evaluations."""
        for edits, forced in self._flips(test, most):
            if not self._may_go_on():
                return
            if await self._passes(edits, (test,)):
                yield forced

    def _flips(self, test: str, most: int) -> Iterator[tuple[tuple[Edit, ...], list[tuple[Row, Any]]]]:
        """Edits that force outcomes in a test, with what they would say about the evaluations seen."""
        source, node = self._site.source, self._site.node
        rows = self._samples.failing[test]
        outcomes = [outcome(row) for row in rows]

        def until(index: int, wanted: bool) -> list[tuple[Row, Any]]:
            # What comes after the first changed outcome is not known.
            kept = [(rows[i], value) for i, value in enumerate(outcomes[:index]) if value is not None]
            return [*kept, (rows[index], wanted)]

        if self._samples.hits[test] > 1:
            for wanted in (True, False):
                different = next((i for i, value in enumerate(outcomes) if value is (not wanted)), None)
                if different is not None:
                    yield forcing.always(source, node, wanted), until(different, wanted)
        order = [*range(len(rows) - 1, -1, -1)]
        if len(order) > most:
            order = [0, *order[: most - 1]]
        for index in order:
            value = outcomes[index]
            if value is not None:
                yield forcing.turned(source, node, (index,)), until(index, not value)
            elif rows[index].result is None:
                for wanted in (False, True):
                    edits = forcing.given(source, node, str(wanted), (index,), raises=True)
                    yield edits, until(index, wanted)

    # -- other expressions -----------------------------------------------------------

    async def _value(self) -> AsyncIterator[Candidate]:
        count = self._samples.hits[self._test]
        worked = 0
        refuted: set[Any] = set()
        async for forced in self._forced_values(self._test, refuted):
            if not worked:
                others = [each async for each in self._in_other_tests()]
                self._others = [row for rows in others for row in rows]
            worked += 1
            found = values(self._samples, value_goal(self._samples, [*forced, *self._others]), self._view)
            async for candidate in self._first_that_work(found, _MOST_BUILT):
                yield candidate
            if worked >= _ENOUGH:
                break
        self._budget.forced += bool(worked)
        if not worked:
            async for candidate in self._groups(refuted=refuted if count == 1 else None):
                yield candidate
        if not self._given and "\n" not in self._site.text:
            async for candidate in self._first_that_work(
                calls(self._site, self._rows, self._view), _MOST_BUILT
            ):
                yield candidate

    async def _forced_values(self, test: str, refuted: set[Any]) -> AsyncIterator[list[tuple[Row, Any]]]:
        """What values that make a test pass say about its evaluations; keys of others go to ``refuted``."""
        rows = self._samples.failing[test]
        if self._samples.hits[test] > _MOST_FORCED:
            return
        for index in range(len(rows) - 1, -1, -1):
            row = rows[index]
            kept = [(each, value_key(known(each.result))) for each in rows[:index] if each.result is not None]
            most = _MOST_VALUES if len(rows) == 1 else _MOST_VALUES // 2
            for text, key in self._pool(row)[:most]:
                if not self._may_go_on():
                    return
                edits = forcing.given(
                    self._site.source, self._site.node, text, (index,), raises=row.result is None
                )
                if await self._passes(edits, (test,)):
                    yield [*kept, (row, key)]
                else:
                    refuted.add(key)

    def _pool(self, row: Row) -> list[tuple[str, Any]]:
        """Texts of values to try at one evaluation, with their keys."""
        own = row.result
        kind = None if own is None else own.type
        found: dict[Any, str] = {}
        for value in self._expected:
            text = value_text(value)
            fits = kind in (None, NONE) or alike(kind or "", type(value).__name__)
            # The whole result may well change its type, a part of an expression hardly.
            if text is not None and (fits or self._site.role == "returned value"):
                found.setdefault(value_key(value), text)
        for value in parts_of(self._expected):
            if kind is not None and alike(kind, type(value).__name__):
                found.setdefault(value_key(value), repr(value))
        for name, seen in row.snapshot.names.items():
            if name != "self" and (kind in (None, seen.type) or kind == NONE):
                found.setdefault(value_key(known(seen)), name)
        for value in _ORDINARY.get(kind or "", (0, None)):
            found.setdefault(value_key(value), repr(value))
        if own is not None:
            found.pop(value_key(known(own)), None)
        return [(text, key) for key, text in found.items()][:_MOST_VALUES]

    # -- without forced outcomes -----------------------------------------------------

    async def _groups(
        self, *, condition: bool = False, boolean: bool = False, refuted: set[Any] | None = None
    ) -> AsyncIterator[Candidate]:
        groups = alternatives(self._samples, self._rows, self._view, condition=condition, boolean=boolean)
        for group in groups:
            if not self._may_go_on():
                return
            if refuted is not None and group.key[0] in refuted:
                continue
            async for candidate in self._first_that_work(group.members, 1):
                yield candidate
                async for another in self._first_that_work(group.members[1:4], 3):
                    yield another

    # -- evaluation ------------------------------------------------------------------

    async def _first_that_work(self, found: Sequence[Found], most: int) -> AsyncIterator[Candidate]:
        for each in found[:most]:
            if each.text in self._tried:
                continue
            self._tried.add(each.text)
            if not self._may_go_on():
                return
            candidate = candidate_for(self._site, each, unconfirmed=not self._samples.passing)
            if await self._passes(candidate.edits, self._targets):
                self._given += 1
                if not each.deviates:
                    self._budget.found()
                yield candidate

    def _may_go_on(self) -> bool:
        return self._used < self._budget.per_site and self._given < _MOST_GIVEN and self._budget.left()

    async def _passes(self, edits: tuple[Edit, ...], tests: Sequence[str]) -> bool:
        self._used += 1
        self._budget.used += 1
        return await self._evaluate(self._site.path, edits, tests)


_ORDINARY: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, -1),
    "float": (0.0, 1.0),
    "str": ("",),
    "bool": (True, False),
    "list": ([], None),
    "dict": ({}, None),
    "NoneType": (0, "", [], False, True),
    "tuple": ((), None),
}
"""Type -> values to try in place of one of that type."""
