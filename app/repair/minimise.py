"""The smallest form of a plausible patch: edits that are not needed are undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from .candidates import Candidate


async def minimise(candidate: Candidate, passes: Callable[[Candidate], Awaitable[bool]]) -> Candidate:
    """Drops one edit after the other while the rest still passes; single edits are minimal already."""
    smallest = candidate
    for edit in candidate.edits:
        if len(smallest.edits) == 1:
            break
        fewer = replace(smallest, edits=tuple(each for each in smallest.edits if each != edit))
        if await passes(fewer):
            smallest = fewer
    return smallest
