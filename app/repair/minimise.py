"""The smallest form of a plausible patch: edits that are not needed are undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from .candidates import Candidate


async def minimise(candidate: Candidate, passes: Callable[[Candidate], Awaitable[bool]]) -> Candidate:
    """Drops what is not needed of whole files, then one edit after the other, while the rest still passes.

    Single edits are minimal already.
    """
    smallest = candidate
    for part in candidate.parts:
        others = [each for each in smallest.parts if each.path != part.path]
        if others and await passes(fewer := smallest.with_parts(others)):
            smallest = fewer
    for part in smallest.parts:
        left = part.edits
        for edit in part.edits:
            edits = tuple(each for each in left if each != edit)
            rest = [each for each in smallest.parts if each.path != part.path]
            if edits and await passes(fewer := smallest.with_parts([*rest, replace(part, edits=edits)])):
                smallest, left = fewer, edits
    return smallest
