"""Ranked places from tests and from an issue's text, brought to one measure and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .issue.rank import rank_issue
from .localisation.model import Localisation, Location

_MOST_FROM_ISSUE = 100
_ISSUE_BOOST = 3.0
"""What the best place of an issue gains where failing tests lead to it as well."""
_ISSUE_ALONE = 0.15
"""What the best place of an issue is worth beside failing tests that never reach it."""


@dataclass(frozen=True)
class Place:
    """One function or line. Scores of one ranking add up to 1."""

    path: str
    function: str
    line: int
    end_line: int
    score: float
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "function": self.function,
            "line": self.line,
            "end_line": self.end_line,
            "score": round(self.score, 4),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True)
class Placed:
    """One ranking at three levels, best first."""

    functions: tuple[Place, ...]
    lines: tuple[Place, ...]
    from_tests: bool

    @property
    def files(self) -> tuple[tuple[str, float], ...]:
        """Files with the share of suspicion that lies in them."""
        total: dict[str, float] = {}
        for place in self.functions:
            total[place.path] = total.get(place.path, 0.0) + place.score
        ranked = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple((path, round(score, 4)) for path, score in ranked)


def from_tests(found: Localisation) -> Placed:
    """What failing tests lead to."""
    return Placed(_places(found.locations), _places(found.statements), True)


def _places(locations: Sequence[Location]) -> tuple[Place, ...]:
    return _normalised(
        [
            Place(each.path, each.function, each.line, each.end_line, each.score, each.reasons)
            for each in locations
        ]
    )


def from_issue(root: Path, text: str) -> Placed:
    """What an issue's text alone leads to; a function's line is the one that shares most with it."""
    places = _normalised(
        [
            Place(each.path, each.function, each.line, each.end_line, each.score, each.reasons)
            for each in rank_issue(root, text, limit=_MOST_FROM_ISSUE)
        ]
    )
    return Placed(places, places, False)


def merged(rankings: Sequence[Placed]) -> Placed:
    """One ranking of at most two: of tests, of an issue, or of both."""
    by_tests = next((each for each in rankings if each.from_tests), None)
    by_issue = next((each for each in rankings if not each.from_tests), None)
    if by_tests is None or by_issue is None:
        return by_tests or by_issue or Placed((), (), False)
    top = max((place.score for place in by_issue.functions), default=1.0)
    said = {(place.path, place.function): place for place in by_issue.functions}

    def boosted(places: Sequence[Place]) -> list[Place]:
        found: list[Place] = []
        for place in places:
            also = said.get((place.path, place.function))
            if also is None:
                found.append(place)
                continue
            reasons = (*place.reasons, *(f"the issue: {reason}" for reason in also.reasons[:2]))
            score = place.score * (1 + _ISSUE_BOOST * also.score / top)
            found.append(replace(place, score=score, reasons=reasons))
        return found

    functions = boosted(by_tests.functions)
    reached = {(place.path, place.function) for place in by_tests.functions}
    alone = [
        replace(
            place,
            score=_ISSUE_ALONE * place.score / top,
            reasons=tuple(f"the issue: {reason}" for reason in place.reasons),
        )
        for place in by_issue.functions
        if (place.path, place.function) not in reached
    ]
    return Placed(
        _normalised([*functions, *alone]),
        _normalised([*boosted(by_tests.lines), *alone]),
        True,
    )


def _normalised(places: Sequence[Place]) -> tuple[Place, ...]:
    total = sum(place.score for place in places)
    scaled = [replace(place, score=place.score / total) for place in places] if total else list(places)
    return tuple(sorted(scaled, key=lambda place: (-place.score, place.path, place.line)))
