"""Two edits at related places, of one file or of two, for faults that no single edit repairs.

Related are: an edit that turned some failing tests green, with what the other failing tests run
through; the same kind of edit at two places; edits of one function, and less so of two, more so
when they concern the same names. The pairs come likeliest first, and their scores lie below those
of the edits they are made of.
"""

from __future__ import annotations

import ast
import keyword
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from .candidates import Candidate
from .joining import apart, joined
from .search import Partial
from .source import FUNCTIONS, ModuleSource

_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST_PARTIAL = 12
_MOST_BESIDE_PARTIAL = 1500
_MOST_PER_FUNCTION = 90
_MOST_PER_LINE = 12
_MOST_FUNCTIONS = 8
_MOST_OF_A_KIND = 6
_TWO_PARTIAL, _ONE_PARTIAL = 0.98, 0.9
_UNREACHED = 0.3
_FURTHER, _NEXT_FURTHER = 0.8, 0.7
"""For the best half that turns no test green, with which one only fails later; for each next one."""
_TWINS = 0.7
_SAME_KIND, _SAME_SHAPE, _SAME_NAMES, _SAME_FUNCTION = 0.9, 0.7, 0.7, 0.5
_NAMES_ACROSS, _ACROSS = 0.6, 0.45
_MOST_ACROSS = 16


def pairs(
    candidates: Sequence[Candidate],
    partial: Sequence[Partial],
    sources: Mapping[str, ModuleSource],
    limit: int,
    coverage: Mapping[str, Mapping[str, Collection[int]]] | None = None,
    *,
    with_partial_only: bool = False,
) -> Iterator[Candidate]:
    """Combined candidates, at most ``limit``, each combination once; scores fall.

    Args:
        candidates: single edits, likeliest first.
        partial: edits that turned some targets green (``SearchState.partial``), or none but
            took one further.
        sources: the files they edit.
        limit: how many to give.
        coverage: target -> path -> lines that it runs.
        with_partial_only: no pairs but those that have one of ``partial``.
    """
    places = {path: Places(source) for path, source in sources.items()}
    found: dict[tuple[int, int], tuple[float, Candidate, Candidate]] = {}
    numbers = {id(each): number for number, each in enumerate(candidates)}

    def offer(one: Candidate, two: Candidate, relation: float) -> None:
        if not apart(one, two):
            return
        first, second = (numbers.setdefault(id(each), len(numbers)) for each in (one, two))
        key = (min(first, second), max(first, second))
        if first == second:
            return
        score = relation * (one.score * two.score) ** 0.5
        if key not in found or score > found[key][0]:
            found[key] = (score, one, two)

    for one, two, relation in _with_partial(candidates, partial, coverage or {}):
        offer(one, two, relation)
    if not with_partial_only:
        for one, two, relation in _alike(candidates, places):
            offer(one, two, relation)
        groups = _by_function(candidates, places)
        for one, two, relation in _of_one_function(groups):
            offer(one, two, relation)
        for one, two, relation in _of_two_functions(groups):
            offer(one, two, relation)
    ranked = sorted(found.items(), key=lambda item: (-round(item[1][0], 9), item[0]))
    for _, (score, one, two) in ranked[:limit]:
        yield joined(one, two, score)
    if not with_partial_only:
        yield from _all_of_a_kind(candidates, limit - len(ranked))


def toward(
    candidates: Sequence[Candidate], red: Sequence[str], coverage: Mapping[str, Mapping[str, Collection[int]]]
) -> list[Candidate]:
    """The candidates with those first that lie where some targets run (``coverage`` as for ``pairs``)."""
    known: dict[tuple[str, int, int], float] = {}

    def rank(candidate: Candidate) -> float:
        place = (candidate.path, candidate.line, candidate.end_line)
        if place not in known:
            known[place] = _reached(place, red, coverage)
        return -round(candidate.score * known[place], 9)

    return sorted(candidates, key=rank)


def twins(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same edit at two places, of any files; likeliest first, and below single edits of like rank."""
    equal: dict[tuple[str, str], list[Candidate]] = {}
    for each in candidates:
        equal.setdefault((each.family, each.description), []).append(each)
    made = [
        joined(one, two, _TWINS * (one.score * two.score) ** 0.5)
        for group in equal.values()
        for one, two in _couples(group[:_MOST_OF_A_KIND])
        if apart(one, two)
    ]
    # Stable: equal ones stay in the order of the candidates.
    return sorted(made, key=lambda each: -round(each.score, 9))


def _with_partial(
    candidates: Sequence[Candidate],
    partial: Sequence[Partial],
    coverage: Mapping[str, Mapping[str, Collection[int]]],
) -> Iterator[tuple[Candidate, Candidate, float]]:
    """Half the way with the other half: what the targets that are still red run through first."""
    most = max((len(each.green) for each in partial), default=0)
    ranked = sorted(partial, key=lambda each: (bool(each.breaks), -len(each.green), -each.candidate.score))
    chosen = ranked[:_MOST_PARTIAL]
    turning = sum(bool(each.green) for each in chosen)
    for position, half in enumerate(chosen):
        share = len(half.green) / most if half.green else _FURTHER * _NEXT_FURTHER ** (position - turning)
        for other in chosen[position + 1 :]:
            yield half.candidate, other.candidate, _TWO_PARTIAL * share
        red = [test for test in coverage if test not in half.green]
        reached: dict[tuple[str, int, int], float] = {}
        for two in candidates[:_MOST_BESIDE_PARTIAL]:
            place = (two.path, two.line, two.end_line)
            if place not in reached:
                reached[place] = _reached(place, red, coverage)
            yield half.candidate, two, _ONE_PARTIAL * share * reached[place]


def _reached(
    place: tuple[str, int, int],
    tests: Sequence[str],
    coverage: Mapping[str, Mapping[str, Collection[int]]],
) -> float:
    """From the share of tests that run any line of a place: 1 for all of them, or when it is unknown."""
    path, first, last = place
    known = [coverage[test].get(path, ()) for test in tests if coverage[test]]
    if not known:
        return 1.0
    through = sum(any(line in lines for line in range(first, last + 1)) for lines in known)
    return _UNREACHED + (1.0 - _UNREACHED) * through / len(known)


def _alike(
    candidates: Sequence[Candidate], places: Mapping[str, Places]
) -> Iterator[tuple[Candidate, Candidate, float]]:
    """The same mistake twice: equal edits at two places, or edits of one shape in two functions."""
    equal: dict[tuple[str, str], list[Candidate]] = {}
    shaped: dict[tuple[str, str, str], list[Candidate]] = {}
    for each in candidates:
        equal.setdefault((each.family, each.description), []).append(each)
        shape = _WORD.sub("_", each.description)
        if shape != each.description:
            shaped.setdefault((each.path, each.family, shape), []).append(each)
    for group in equal.values():
        for one, two in _couples(group[:_MOST_OF_A_KIND]):
            yield one, two, _SAME_KIND
    for group in shaped.values():
        for one, two in _couples(group[:_MOST_OF_A_KIND]):
            if places[one.path].function(one) != places[two.path].function(two):
                yield one, two, _SAME_SHAPE


_Groups = Mapping[tuple[str, int], Sequence[tuple[Candidate, frozenset[str]]]]
"""Path and number of a function -> its best edits, with the names they concern."""


def _by_function(candidates: Sequence[Candidate], places: Mapping[str, Places]) -> _Groups:
    """The best edits of the likeliest functions, not too many of any line."""
    groups: dict[tuple[str, int], list[tuple[Candidate, frozenset[str]]]] = {}
    lines: dict[tuple[str, int], int] = {}
    for each in candidates:
        key = (each.path, places[each.path].function(each))
        if key not in groups and len(groups) >= _MOST_FUNCTIONS:
            continue
        group = groups.setdefault(key, [])
        line = (each.path, each.line)
        if len(group) < _MOST_PER_FUNCTION and lines.get(line, 0) < _MOST_PER_LINE:
            lines[line] = lines.get(line, 0) + 1
            group.append((each, places[each.path].names(each)))
    return groups


def _of_one_function(groups: _Groups) -> Iterator[tuple[Candidate, Candidate, float]]:
    """The best edits of each function with each other."""
    for group in groups.values():
        for position, (one, here) in enumerate(group):
            for two, there in group[position + 1 :]:
                related = bool(here & there)
                yield one, two, _SAME_NAMES if related else _SAME_FUNCTION


def _of_two_functions(groups: _Groups) -> Iterator[tuple[Candidate, Candidate, float]]:
    """The very best edits of each function with those of each other one."""
    best = [group[:_MOST_ACROSS] for group in groups.values()]
    for position, group in enumerate(best):
        for other in best[position + 1 :]:
            for one, here in group:
                for two, there in other:
                    yield one, two, _NAMES_ACROSS if here & there else _ACROSS


def _all_of_a_kind(candidates: Sequence[Candidate], limit: int) -> Iterator[Candidate]:
    """The same edit at three and more places at once."""
    equal: dict[tuple[str, str], list[Candidate]] = {}
    for each in candidates:
        equal.setdefault((each.family, each.description), []).append(each)
    for group in list(equal.values())[: max(0, limit)]:
        if 3 <= len(group) <= _MOST_OF_A_KIND and all(apart(*couple) for couple in _couples(group)):
            whole = group[0]
            for each in group[1:]:
                whole = joined(whole, each, 0.5 * min(whole.score, each.score))
            yield whole


def _couples(group: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate]]:
    for position, one in enumerate(group):
        for two in group[position + 1 :]:
            yield one, two


class Places:
    """What edits of a file touch."""

    def __init__(self, source: ModuleSource) -> None:
        self._source = source

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """Sorted offsets where the innermost function changes, and that function's number from there on."""
        points: list[tuple[int, int]] = [(0, -1)]

        def visit(node: ast.AST, outer: int) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, FUNCTIONS):
                    start, end = self._source.statement_lines(child)
                    number = len(points)
                    points.append((start, number))
                    visit(child, number)
                    points.append((end, outer))
                else:
                    visit(child, outer)

        visit(self._source.tree, -1)
        points.sort(key=lambda point: point[0])
        return [start for start, _ in points], [number for _, number in points]

    def function(self, candidate: Candidate) -> int:
        """A number for the innermost function around an edit; -1 at module level."""
        starts, numbers = self._starts
        return numbers[bisect_right(starts, candidate.edits[0].start) - 1]

    def names(self, candidate: Candidate) -> frozenset[str]:
        """Identifiers of the lines that are edited, before and after."""
        source = self._source
        spans = [(source.line_start(edit.start), source.line_end(edit.end)) for edit in candidate.edits]
        pieces = [source.text[start:end] for start, end in spans]
        words = _WORD.findall(" ".join((*pieces, *(edit.text for edit in candidate.edits))))
        return frozenset(each for each in words if not keyword.iskeyword(each) and each != "self")
