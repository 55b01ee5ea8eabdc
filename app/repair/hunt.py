"""The order of a search: likely single edits, pairs that have a half, built expressions, lines of the
language model, the other edits, other pairs. Between the likely ones, halves that were found are joined."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..repo.testing.report import Outcome
from ..tools.base import ToolContext
from .baseline import Baseline
from .candidates import Candidate, generate
from .evidence import Evidence
from .family import Harm
from .gathering import gather
from .halves import Halves
from .knowledge import Knowledge
from .language.proposals import propose_lines
from .limits import TIME, Clock, Limits
from .localisation.testview import TestFiles
from .localise import Localisation
from .pairs import Places, pairs, toward, twins
from .search import Partial, Search, SearchState
from .source import Edit, ModuleSource
from .synthesis.search import Budget, synthesise
from .validate import Validator
from .values import RuntimeValues, observe, places_of

_BEFORE_BUILDING = 1500
"""Single edits that are tried before anything is built."""
_EVALUATIONS_SHARE = 0.1
"""Experiments of the synthesis for each candidate that may be tried."""
_SYNTHESIS_SHARE = 0.2
"""Of the time that is left when it begins: the last resort, for where an experiment takes long."""
_LATER_SHARE = 0.25
"""Of the candidate limit, kept for what is built and for pairs."""
_LINES_SHARE = 0.2
"""Of the time that is left, for the language model's own lines."""
_CHUNK = 100
"""Candidates between two looks at the halves found so far."""
_TWINS_AT_A_TIME = 10
"""After a chunk: the same edit twice, as far as it is likelier than the next single one."""
_LOOKED_AT = 12
_PAIRS_OF_HALVES = 40
"""Partial candidates looked at closely, and pairs of them, after a chunk."""
_LIKELY_UNTIL, _WITH_A_HALF_UNTIL = 0.55, 0.7
"""Shares of the time after which the next part begins, although not all were tried."""
_PAIRS_WITH_A_HALF = 0.2
"""Of the candidate limit, where partial candidates point at two faults."""
_OBSERVED_TESTS = 6
_OBSERVE_S = 20.0


@dataclass(frozen=True)
class Ground:
    """What candidates are made from."""

    localisation: Localisation
    knowledge: Knowledge
    values: RuntimeValues | None
    tests: TestFiles | None = None


async def prepare(
    context: ToolContext, localisation: Localisation, baseline: Baseline, clock: Clock
) -> Ground:
    """Learns the project's expressions, and the types of values at the suspicious lines."""
    knowledge = await asyncio.to_thread(gather, context.workspace, localisation)
    ended = [case.id for case in baseline.failing if case.outcome is not Outcome.TIMEOUT]
    failing = ended[:_OBSERVED_TESTS]
    values = None
    if failing and not baseline.broken:
        limit = max(1.0, min(_OBSERVE_S, 0.2 * clock.left()))
        values = await observe(context.tests, failing, places_of(localisation.lines), timeout_s=limit)
    return Ground(localisation, knowledge, values, TestFiles(context.workspace.read))


async def single_edits(ground: Ground, baseline: Baseline, seed: int) -> list[Candidate]:
    """All edits of all families, likeliest first; made in a thread, so that signals and limits are heard."""
    evidence, gone = Evidence.of(baseline.failing, ground.tests), threading.Event()
    try:
        return await asyncio.to_thread(
            generate, ground.localisation, evidence, seed, ground.knowledge, ground.values, gone.is_set
        )
    finally:
        gone.set()


async def hunt(
    context: ToolContext,
    candidates: Sequence[Candidate],
    ground: Ground,
    search: Search,
    validator: Validator,
    state: SearchState,
    limits: Limits,
    clock: Clock,
) -> None:
    """Searches until something plausible is found or a limit ends it; what it found is in the state."""
    state.hurried = state.hurried or (ground.values is not None and not ground.values.whole)
    later = int(_LATER_SHARE * limits.max_candidates)
    singles = replace(limits, max_candidates=limits.max_candidates - later)
    first = min(_BEFORE_BUILDING, singles.max_candidates)
    halves = Halves(search.baseline.targets, partial(_function_of, ground.localisation.sources, {}))
    begun, end = time.monotonic(), clock.search_until

    def late(share: float) -> bool:
        over = time.monotonic() > begun + share * (end - begun)
        state.hurried = state.hurried or over
        return over

    alike = deque(twins(candidates[:first]))
    likely, rest = list(candidates[:first]), candidates[first:]
    red: list[str] = []
    while likely and not state.plausible and not state.limit and not late(_LIKELY_UNTIL):
        chunk, likely = likely[:_CHUNK], likely[_CHUNK:]
        await search.run(chunk, singles, clock)
        if not state.plausible and not state.limit:
            await _join_halves(halves, search, state, limits, clock)
        if not state.plausible and not state.limit:
            following = max((each.score for each in likely), default=0.0)
            ready = min(_TWINS_AT_A_TIME, sum(each.score >= following for each in alike))
            await search.run([alike.popleft() for _ in range(ready)], limits, clock)
        before, red = red, _still_red(search, state)
        if red and red != before:
            likely = toward(likely, red, _coverage(search))
    untried = {id(each) for each in (*likely, *rest)}
    left = [each for each in candidates if id(each) in untried]
    if state.plausible:
        # The neighbours of what was found may lie beyond.
        await search.run(left, singles, clock)
    if _done(state):
        return
    further = tuple(state.further)
    if state.partial or further:
        await _join_halves(halves, search, state, limits, clock, within_functions=True)
        most = min(int(_PAIRS_WITH_A_HALF * limits.max_candidates), limits.max_candidates - state.tried)
        with_half = _pairs(candidates, ground, search, state, further, most, with_partial_only=True)
        while (chunk := list(itertools.islice(with_half, _CHUNK))) and not _done(state):
            if late(_WITH_A_HALF_UNTIL):
                break
            await search.run(chunk, limits, clock)
    if _done(state):
        return
    await _build(context, ground, search, validator, state, limits, clock)
    if _done(state):
        return
    await _ask_the_model(context, ground, search, state, limits, clock)
    if _done(state):
        return
    await search.run(left, singles, clock)
    if _done(state):
        return
    most = max(0, limits.max_candidates - state.tried)
    await search.run(_pairs(candidates, ground, search, state, further, most), limits, clock)


async def _join_halves(
    halves: Halves,
    search: Search,
    state: SearchState,
    limits: Limits,
    clock: Clock,
    *,
    within_functions: bool = False,
) -> None:
    """Tries partial candidates together, where they can turn everything green."""
    if not state.partial or _still_red(search, state):
        return
    await search.look_at_partial(_LOOKED_AT, clock)
    made = halves.pairs(state.partial, _PAIRS_OF_HALVES, within_functions=within_functions)
    await search.run(made, limits, clock)


def _still_red(search: Search, state: SearchState) -> list[str]:
    """Targets that no candidate turned green, when some turned others green; else nothing."""
    green = frozenset[str]().union(*(each.green for each in state.partial))
    return [test for test in search.telling if test not in green] if green else []


def _coverage(search: Search) -> dict[str, Mapping[str, frozenset[int]]]:
    """Target -> path -> lines that it runs."""
    return {test: search.baseline.coverage.get(test, {}) for test in search.baseline.targets}


def _pairs(
    candidates: Sequence[Candidate],
    ground: Ground,
    search: Search,
    state: SearchState,
    further: Sequence[Candidate],
    most: int,
    *,
    with_partial_only: bool = False,
) -> Iterator[Candidate]:
    # Of what was tried by now: pairs that get further are no halves.
    half_way = [*state.partial, *(Partial(each, frozenset()) for each in further)]
    return pairs(
        candidates,
        half_way,
        ground.localisation.sources,
        most,
        _coverage(search),
        with_partial_only=with_partial_only,
    )


def _function_of(
    sources: Mapping[str, ModuleSource], known: dict[str, Places], candidate: Candidate
) -> tuple[str, int]:
    if candidate.path not in known:
        known[candidate.path] = Places(sources[candidate.path])
    return candidate.path, known[candidate.path].function(candidate)


def _done(state: SearchState) -> bool:
    # The limit of single edits ends only those.
    return bool(state.plausible) or state.limit == TIME


async def _ask_the_model(
    context: ToolContext, ground: Ground, search: Search, state: SearchState, limits: Limits, clock: Clock
) -> None:
    """Lines that the local language model would write at the most suspicious places."""
    local = ground.localisation
    seconds = _LINES_SHARE * (clock.search_until - time.monotonic())
    proposed = await propose_lines(local.lines, local.sources, context.seed, max(0.0, seconds))
    state.generated += len(proposed.candidates)
    state.hurried = state.hurried or proposed.out_of_time
    await search.run(proposed.candidates, limits, clock)


async def _build(
    context: ToolContext,
    ground: Ground,
    search: Search,
    validator: Validator,
    state: SearchState,
    limits: Limits,
    clock: Clock,
) -> None:
    """Synthesis, bounded by a number of experiments and at most a fifth of the time that is left."""
    baseline = search.baseline
    sources = ground.localisation.sources

    async def evaluate(path: str, edits: tuple[Edit, ...], tests: Sequence[str]) -> bool:
        line = sources[path].line_of(edits[0].start)
        experiment = Candidate(path, line, line, edits, "synthesis", "", "", Harm.PRECISE, 0.0)
        return (await validator.trial(experiment, sources, [validator.stage(tests)])).good

    budget = Budget(
        evaluations=max(1, int(_EVALUATIONS_SHARE * limits.max_candidates)),
        seconds=max(1.0, _SYNTHESIS_SHARE * (clock.search_until - time.monotonic())),
    )
    found = [each async for each in synthesise(context, ground.localisation, baseline, evaluate, budget)]
    state.hurried = state.hurried or budget.late
    await search.run(sorted(found, key=lambda each: -each.score), limits, clock)
