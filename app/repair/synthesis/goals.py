"""Expressions for a goal: forced outcomes in failing tests, and what passing tests saw."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..scope import ModuleView
from .contexts import Context, holes, ingredients
from .distance import Distance
from .enumeration import Enumeration
from .samples import Row, Samples, leaves_for
from .sites import Site, level_of, needed_level
from .terms import (
    AND,
    MIXED,
    NOTHING,
    NUMBER,
    OPTIONAL,
    OR,
    TRUTH,
    Term,
    Undefined,
    kind_of,
    known,
    truth,
    value_key,
)

_MOST_FOUND = 40
_MOST_MATCHES = 400
_HOLE_SIZE = 3
_EXACT_FIRST, _DEVIATING = 7, 3
"""So many that keep all values of passing tests come before so many that do not."""
_DEVIATES, _DEVIATION = 1.0, 1.0
"""Costs of other values in some, and in all, evaluations of passing tests."""
_TOLERATED = 0.5
AND_CLAUSE, OR_CLAUSE, WHOLE = "and", "or", "whole"


@dataclass(frozen=True)
class Found:
    """A new text for a site; ``clause``: what was added to the old one, empty when it was replaced.

    ``deviates``: it has other values than the old one in evaluations of passing tests.
    ``kept``: share of the old text that is still there.
    """

    text: str
    level: int
    cost: float
    clause: str = ""
    form: str = WHOLE
    deviates: bool = False
    kept: float = 1.0


@dataclass(frozen=True)
class Goal:
    """Wanted outcomes (truth values, or keys of values) by evaluation; the first ``forced`` must hold."""

    rows: tuple[Row, ...]
    wanted: tuple[Any, ...]
    forced: int

    def deviation(self, outcome_at: Callable[[int], Any]) -> float | None:
        """Share of the other evaluations with another outcome; None when a forced one differs.

        ``outcome_at`` may raise anything where there is no outcome.
        """
        missed = 0
        for index, wanted in enumerate(self.wanted):
            try:
                good = outcome_at(index) == wanted
            except Exception:  # noqa: BLE001  an operation that raises on these values does not fit
                return None
            if not good:
                missed += 1
                if index < self.forced or missed > max(1, _TOLERATED * (len(self.rows) - self.forced)):
                    return None
        return missed / max(1, len(self.rows) - self.forced)


def outcome(row: Row) -> bool | None:
    """The truth value a condition had, or None when it raised or cannot be known."""
    if row.result is None:
        return None
    try:
        return truth(known(row.result))
    except Undefined:
        return None


def condition_goal(samples: Samples, forced: Sequence[tuple[Row, bool]]) -> Goal:
    kept = [(row, value) for row in samples.passing if (value := outcome(row)) is not None]
    pairs = [*forced, *kept]
    return Goal(tuple(row for row, _ in pairs), tuple(value for _, value in pairs), len(forced))


def value_goal(samples: Samples, forced: Sequence[tuple[Row, Any]]) -> Goal:
    """``forced``: evaluations with the keys of the values they have to have."""
    kept = [(row, value_key(known(row.result))) for row in samples.passing if row.result is not None]
    pairs = [*forced, *kept]
    return Goal(tuple(row for row, _ in pairs), tuple(value for _, value in pairs), len(forced))


def conditions(samples: Samples, goal: Goal, view: ModuleView, *, boolean: bool) -> list[Found]:
    """Conditions that yield the forced outcomes and keep the others, the nearest to the old one first.

    ``boolean``: the value is used as such, not only its truth.
    """
    distance = Distance(samples.site, view)
    changed = {
        wanted
        for row, wanted in zip(goal.rows[: goal.forced], goal.wanted, strict=False)
        if outcome(row) != wanted
    }
    found: list[Found] = []
    if len(changed) == 1:
        found += _clauses(samples, goal, changed.pop(), view, distance)
    for term, deviation in _terms(samples, goal, view, lambda term: _truths(term, loose=not boolean)):
        found.append(_whole(term, deviation, distance))
    found += _in_holes(samples, goal, view, distance, _truth_or_undefined)
    return _ranked(found)


def values(samples: Samples, goal: Goal, view: ModuleView) -> list[Found]:
    """Expressions that have the forced values and keep the others, the nearest to the old one first."""
    distance = Distance(samples.site, view)
    found: list[Found] = []
    for term, deviation in _terms(samples, goal, view, _keys, itself=True):
        found.append(_whole(term, deviation, distance))
    found += _in_holes(samples, goal, view, distance, value_key)
    return _ranked(found)


def _ranked(found: Iterable[Found]) -> list[Found]:
    first: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: (each.cost, len(each.text), each.text)):
        first.setdefault(each.text, each)
    exact = [each for each in first.values() if not each.deviates]
    others = [each for each in first.values() if each.deviates]
    return [*exact[:_EXACT_FIRST], *others[:_DEVIATING], *exact[_EXACT_FIRST:]][:_MOST_FOUND]


def _leaves(site: Site, rows: Sequence[Row], view: ModuleView, *, itself: bool) -> list[Term]:
    near = leaves_for(site, rows, view, itself=itself)
    texts = {term.text for term in near}
    return [*near, *(term for term in ingredients(site, rows) if term.text not in texts)]


def _terms(
    samples: Samples,
    goal: Goal,
    view: ModuleView,
    outcomes_of: Callable[[Term], Callable[[int], Any] | None],
    *,
    itself: bool = False,
) -> Iterator[tuple[Term, float]]:
    count = 0
    for term in Enumeration(_leaves(samples.site, goal.rows, view, itself=itself)):
        outcomes = outcomes_of(term)
        if outcomes is None or term.text == samples.site.text or (term.constant and len(goal.rows) > 1):
            continue
        deviation = goal.deviation(outcomes)
        if deviation is not None:
            yield term, deviation
            count += 1
            if count >= _MOST_MATCHES:
                return


def _deviation_cost(deviation: float) -> float:
    return _DEVIATES + _DEVIATION * deviation if deviation else 0.0


def _whole(term: Term, deviation: float, distance: Distance) -> Found:
    cost = distance.of(term.text) + distance.oddity(term) + _deviation_cost(deviation)
    return Found(term.text, term.level, cost, deviates=deviation > 0, kept=distance.kept(term.text))


def _clauses(
    samples: Samples, goal: Goal, wanted: bool, view: ModuleView, distance: Distance
) -> Iterator[Found]:
    """The old condition with one clause: ``or`` where it has to hold more often, ``and`` where less often."""
    site = samples.site
    # The other evaluations are decided by the old condition alone.
    chosen = [index for index, row in enumerate(goal.rows) if outcome(row) is not wanted]
    part = Goal(
        tuple(goal.rows[index] for index in chosen),
        tuple(goal.wanted[index] for index in chosen),
        sum(index < goal.forced for index in chosen),
    )
    raised = any(row.result is None for row in part.rows)
    joint, word, form = (OR, "or", OR_CLAUSE) if wanted else (AND, "and", AND_CLAUSE)
    kept = site.text if level_of(site.node) >= joint and "\n" not in site.text else f"({site.text})"
    for term, deviation in _terms(samples, part, view, lambda term: _truths(term, loose=True)):
        clause = term.within(joint)
        text = f"{clause} {word} {kept}" if raised else f"{kept} {word} {clause}"
        cost = distance.of(text) + distance.oddity(term) + _deviation_cost(deviation)
        yield Found(text, joint, cost, term.text, form, deviation > 0)


def _truths(term: Term, *, loose: bool) -> Callable[[int], Any] | None:
    """Truth values, by evaluation, of a term that may serve as a condition.

    Numbers may not: `if count` is seldom what is missing, and a comparison says it better.
    """
    if term.kind == TRUTH:
        return term.values.__getitem__
    if term.kind == NUMBER or not loose:
        return None
    return lambda index: truth(term.values[index])


def _keys(term: Term) -> Callable[[int], Any]:
    return lambda index: value_key(term.values[index])


def _truth_or_undefined(value: Any) -> bool:
    return truth(value)


def _in_holes(
    samples: Samples,
    goal: Goal,
    view: ModuleView,
    distance: Distance,
    outcome_of: Callable[[Any], Any],
) -> Iterator[Found]:
    """The old expression with a small term in the place of one of its parts."""
    site = samples.site
    places = holes(site)
    if not places:
        return
    terms = [*Enumeration(_leaves(site, goal.rows, view, itself=False), max_size=_HOLE_SIZE)]
    count = 0
    for hole in places:
        context = Context(site, hole)
        old = site.source.segment(hole)
        kind = context.kind(goal.rows)
        for term in terms:
            if term.text == old or (kind not in (None, term.kind) and OPTIONAL not in (kind, term.kind)):
                continue
            deviation = goal.deviation(
                lambda index, term=term, context=context: outcome_of(
                    context.value(goal.rows[index], term.values[index])
                )
            )
            if deviation is None:
                continue
            text = _filled(site, hole, term)
            cost = distance.of(text) + distance.oddity(term) + _deviation_cost(deviation)
            kept = distance.kept(text)
            yield Found(text, level_of(site.node), cost, deviates=deviation > 0, kept=kept)
            count += 1
            if count >= _MOST_MATCHES:
                return


def _filled(site: Site, hole: ast.expr, term: Term) -> str:
    start = site.source.span(site.node)[0]
    first, last = (offset - start for offset in site.source.span(hole))
    return site.text[:first] + term.within(needed_level(site.source, hole)) + site.text[last:]


@dataclass(frozen=True)
class Alternative:
    """Expressions that agree with each other in every failing evaluation seen."""

    key: tuple[Any, ...]
    """Their values in the failing evaluations."""
    members: tuple[Found, ...]


def alternatives(
    samples: Samples, rows: Sequence[Row], view: ModuleView, *, condition: bool, boolean: bool
) -> list[Alternative]:
    """Expressions that differ from the old one mostly where tests fail, grouped by how; nearest first."""
    site = samples.site
    distance = Distance(site, view)
    kept = [row for row in samples.passing if row.result is not None]
    if condition:
        kept = [row for row in kept if outcome(row) is not None]
    own = [_own_key(row, condition) for row in rows]
    goal = Goal(tuple(kept), tuple(_own_key(row, condition) for row in kept), 0)
    kind = kind_of([known(row.result) for row in [*kept, *rows] if row.result is not None])
    groups: dict[tuple[Any, ...], list[Found]] = {}
    for term in Enumeration(_leaves(site, [*kept, *rows], view, itself=not condition)):
        outcomes = _truths(term, loose=not boolean) if condition else _keys(term)
        if outcomes is None or (term.constant and kept) or (not condition and not _fits(term, kind)):
            continue
        deviation = goal.deviation(outcomes)
        if deviation is None:
            continue
        try:
            key = tuple(outcomes(len(kept) + index) for index in range(len(rows)))
        except Undefined:
            continue
        if list(key) != own:
            group = groups.setdefault(key, [])
            if len(group) < _MOST_FOUND:
                group.append(_whole(term, deviation, distance))
    made = [Alternative(key, tuple(_ranked(group))) for key, group in groups.items()]
    made.sort(key=lambda each: (each.members[0].cost, each.members[0].text))
    return made


def _fits(term: Term, kind: str) -> bool:
    """Whether a term has values of the kind that the old expression had."""
    return kind in (term.kind, NOTHING, MIXED) or OPTIONAL in (kind, term.kind)


def _own_key(row: Row, condition: bool) -> Any:
    if row.result is None:
        return ("raised",)
    return outcome(row) if condition else value_key(known(row.result))
