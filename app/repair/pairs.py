"""Two edits at related places of one file, for faults that no single edit repairs.

Related are: an edit that turned some failing tests green, with anything; the same kind of
edit at two places; edits of one function, more so when they concern the same names. The
pairs come likeliest first, and their scores lie below those of the edits they are made of.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from .candidates import Candidate
from .source import FUNCTIONS, ModuleSource

_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST_PARTIAL = 12
_MOST_BESIDE_PARTIAL = 1500
_MOST_PER_FUNCTION = 90
_MOST_PER_LINE = 12
_MOST_FUNCTIONS = 8
_MOST_OF_A_KIND = 6
_TWO_PARTIAL, _ONE_PARTIAL = 0.98, 0.9
_SAME_KIND, _SAME_SHAPE, _SAME_NAMES, _SAME_FUNCTION = 0.9, 0.7, 0.7, 0.5


def pairs(
    candidates: Sequence[Candidate],
    partial: Sequence[tuple[int, Candidate]],
    sources: Mapping[str, ModuleSource],
    limit: int,
) -> Iterator[Candidate]:
    """Combined candidates, at most ``limit``, each combination once; scores fall.

    Args:
        candidates: single edits, likeliest first.
        partial: edits that turned some targets green, with how many (``SearchState.partial``).
        sources: the files they edit.
        limit: how many to give.
    """
    places = {path: _Places(source) for path, source in sources.items()}
    found: dict[tuple[int, int], tuple[float, Candidate, Candidate]] = {}
    numbers = {id(each): number for number, each in enumerate(candidates)}

    def offer(one: Candidate, two: Candidate, relation: float) -> None:
        if one.path != two.path or not _apart(one, two):
            return
        first, second = (numbers.setdefault(id(each), len(numbers)) for each in (one, two))
        key = (min(first, second), max(first, second))
        if first == second:
            return
        score = relation * (one.score * two.score) ** 0.5
        if key not in found or score > found[key][0]:
            found[key] = (score, one, two)

    for one, two, relation in _with_partial(candidates, partial):
        offer(one, two, relation)
    for one, two, relation in _alike(candidates, places):
        offer(one, two, relation)
    for one, two, relation in _of_one_function(candidates, places):
        offer(one, two, relation)
    ranked = sorted(found.items(), key=lambda item: (-round(item[1][0], 9), item[0]))
    for _, (score, one, two) in ranked[:limit]:
        yield _joined(one, two, score)
    yield from _all_of_a_kind(candidates, limit - len(ranked))


def _with_partial(
    candidates: Sequence[Candidate], partial: Sequence[tuple[int, Candidate]]
) -> Iterator[tuple[Candidate, Candidate, float]]:
    """Half the way with the other half."""
    most = max((green for green, _ in partial), default=0)
    ranked = sorted(partial, key=lambda pair: (-pair[0], -pair[1].score))[:_MOST_PARTIAL]
    chosen = [(green / most, each) for green, each in ranked]
    for position, (green, one) in enumerate(chosen):
        for _, two in chosen[position + 1 :]:
            yield one, two, _TWO_PARTIAL * green
        for two in candidates[:_MOST_BESIDE_PARTIAL]:
            yield one, two, _ONE_PARTIAL * green


def _alike(
    candidates: Sequence[Candidate], places: Mapping[str, _Places]
) -> Iterator[tuple[Candidate, Candidate, float]]:
    """The same mistake twice: equal edits at two places, or edits of one shape in two functions."""
    equal: dict[tuple[str, str, str], list[Candidate]] = {}
    shaped: dict[tuple[str, str, str], list[Candidate]] = {}
    for each in candidates:
        equal.setdefault((each.path, each.family, each.description), []).append(each)
        shape = _WORD.sub("_", each.description)
        if shape != each.description:
            shaped.setdefault((each.path, each.family, shape), []).append(each)
    for group in equal.values():
        for one, two in _couples(group[:_MOST_OF_A_KIND]):
            yield one, two, _SAME_KIND
    for group in shaped.values():
        for one, two in _couples(group[:_MOST_OF_A_KIND]):
            known = places[one.path]
            if known.function(one) != known.function(two):
                yield one, two, _SAME_SHAPE


def _of_one_function(
    candidates: Sequence[Candidate], places: Mapping[str, _Places]
) -> Iterator[tuple[Candidate, Candidate, float]]:
    """The best edits of each function with each other, not too many of any line."""
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
    for group in groups.values():
        for position, (one, here) in enumerate(group):
            for two, there in group[position + 1 :]:
                related = bool(here & there)
                yield one, two, _SAME_NAMES if related else _SAME_FUNCTION


def _all_of_a_kind(candidates: Sequence[Candidate], limit: int) -> Iterator[Candidate]:
    """The same edit at three and more places at once."""
    equal: dict[tuple[str, str, str], list[Candidate]] = {}
    for each in candidates:
        equal.setdefault((each.path, each.family, each.description), []).append(each)
    for group in list(equal.values())[: max(0, limit)]:
        if 3 <= len(group) <= _MOST_OF_A_KIND and all(_apart(*couple) for couple in _couples(group)):
            whole = group[0]
            for each in group[1:]:
                whole = _joined(whole, each, 0.5 * min(whole.score, each.score))
            yield whole


def _couples(group: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate]]:
    for position, one in enumerate(group):
        for two in group[position + 1 :]:
            yield one, two


def _apart(one: Candidate, two: Candidate) -> bool:
    """Whether the edits touch different text (and do not insert at the same place)."""
    edits = sorted((*one.edits, *two.edits))
    for before, after in itertools.pairwise(edits):
        if after.start < before.end or after.start == before.start:
            return False
    return True


def _joined(one: Candidate, two: Candidate, score: float) -> Candidate:
    first, second = (one, two) if one.edits[0] <= two.edits[0] else (two, one)
    return Candidate(
        path=one.path,
        line=min(one.line, two.line),
        end_line=max(one.end_line, two.end_line),
        edits=tuple(sorted((*one.edits, *two.edits))),
        family=first.family if first.family == second.family else f"{first.family}+{second.family}",
        fault=first.fault if first.fault == second.fault else f"{first.fault} and {second.fault}",
        description=f"{first.description}, and {second.description}",
        harm=max(one.harm, two.harm),
        score=score,
    )


class _Places:
    """What of a file edits touch."""

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
