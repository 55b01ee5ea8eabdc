"""What localisation gives: ranked functions, statements and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..source import ModuleSource


@dataclass(frozen=True)
class Location:
    """One suspicious place. In a ranking of functions, ``line`` is the function's most suspicious line."""

    path: str
    function: str
    line: int
    end_line: int
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Localisation:
    """Ranked functions, and the suspiciousness of every line of their files (0 to 1]."""

    locations: tuple[Location, ...]
    lines: Mapping[str, Mapping[int, float]]
    sources: Mapping[str, ModuleSource]
    notes: tuple[str, ...] = ()
    statements: tuple[Location, ...] = ()
    """Statements, most suspicious first; a compound statement counts with its header."""

    def files(self) -> tuple[tuple[str, float], ...]:
        """Files by the share of suspicion that lies in them, most suspicious first."""
        total: dict[str, float] = {}
        for place in self.locations:
            total[place.path] = total.get(place.path, 0.0) + place.score
        return tuple(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))
