"""Coverage spectra: how strongly executed lines go with failure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Coverage = Mapping[str, Mapping[str, frozenset[int]]]


@dataclass(frozen=True)
class Counts:
    """How many failing and passing tests ran a line."""

    failing: int = 0
    passing: int = 0


def ochiai(counts: Counts, total_failing: int) -> float:
    """ef / sqrt(F * (ef + ep)); Ochiai coefficient as used by Abreu et al. (2006). 0 to 1."""
    covered = counts.failing + counts.passing
    if not total_failing or not covered:
        return 0.0
    return counts.failing / math.sqrt(total_failing * covered)


def count_lines(
    coverage: Coverage, failing: Iterable[str], passing: Iterable[str]
) -> dict[str, dict[int, Counts]]:
    """Counts per file and line, for files that failing tests ran."""
    bad: dict[str, dict[int, int]] = {}
    for test in failing:
        for path, lines in coverage.get(test, {}).items():
            per_line = bad.setdefault(path, {})
            for line in lines:
                per_line[line] = per_line.get(line, 0) + 1
    good: dict[str, dict[int, int]] = {path: {} for path in bad}
    for test in passing:
        for path, lines in coverage.get(test, {}).items():
            if path not in bad:
                continue
            per_line = good[path]
            for line in lines & bad[path].keys():
                per_line[line] = per_line.get(line, 0) + 1
    return {
        path: {line: Counts(count, good[path].get(line, 0)) for line, count in sorted(lines.items())}
        for path, lines in sorted(bad.items())
    }
