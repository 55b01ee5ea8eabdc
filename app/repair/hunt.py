"""The order of a search: likely single edits, built expressions, the other edits, pairs of edits."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..repo.testing.report import Outcome
from ..tools.base import ToolContext
from .baseline import Baseline
from .candidates import Candidate, generate
from .evidence import Evidence
from .family import Harm
from .gathering import gather
from .knowledge import Knowledge
from .limits import TIME, Clock, Limits
from .localise import Localisation
from .pairs import pairs
from .search import Search, SearchState
from .source import Edit
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
_OBSERVED_TESTS = 6
_OBSERVE_S = 20.0


@dataclass(frozen=True)
class Ground:
    """What candidates are made from."""

    localisation: Localisation
    knowledge: Knowledge
    values: RuntimeValues | None


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
    return Ground(localisation, knowledge, values)


def single_edits(ground: Ground, baseline: Baseline, seed: int) -> list[Candidate]:
    """All edits of all families, likeliest first."""
    evidence = Evidence.of(baseline.failing)
    return generate(ground.localisation, evidence, seed, ground.knowledge, ground.values)


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
    await search.run(candidates[:first], singles, clock)
    if state.plausible:
        # The neighbours of what was found may lie beyond.
        await search.run(itertools.islice(candidates, first, None), singles, clock)
    if _done(state):
        return
    await _build(context, ground, search, validator, state, limits, clock)
    if _done(state):
        return
    await search.run(itertools.islice(candidates, first, None), singles, clock)
    if _done(state):
        return
    most = max(0, limits.max_candidates - state.tried)
    await search.run(pairs(candidates, state.partial, ground.localisation.sources, most), limits, clock)


def _done(state: SearchState) -> bool:
    # The limit of single edits ends only those.
    return bool(state.plausible) or state.limit == TIME


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
