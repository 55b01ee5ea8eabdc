"""The order of a search, with the language model's opinion in it.

A candidate's score is multiplied by exp(WEIGHT x opinion), the opinion being how much likelier its
lines are than the original's (``judge.py``), within bounds. Only the order of the search changes: which
of several plausible patches is right is decided on the scores as they were.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..candidates import Candidate
from ..source import ModuleSource
from .judge import NONE, Judge

SWITCH = "WHIMBREL_RANKER"
"""``off`` in the environment: no language model, whatever is installed."""
WEIGHT = 0.8
BOUND = 1.0
"""Both by measurement, see docs/repair-ranking.md."""


@dataclass(frozen=True)
class Ordering:
    """Candidates, likeliest first, and who ranked them.

    Attributes:
        ranker: the language model's name, or ``none: `` and the reason.
        out_of_time: whether the clock was the reason.
        before: ``id`` of a candidate -> the same with its own score.
    """

    candidates: tuple[Candidate, ...]
    ranker: str
    out_of_time: bool = False
    before: Mapping[int, Candidate] = field(default_factory=dict[int, Candidate])

    def plain(self, candidate: Candidate) -> Candidate:
        """The candidate as it was before the opinion came in."""
        return self.before.get(id(candidate), candidate)


async def in_order(
    candidates: Sequence[Candidate], sources: Mapping[str, ModuleSource], seconds: float | None = None
) -> Ordering:
    """Sorts candidates by their scores and the opinions; as they were where there is no model.

    Args:
        candidates: likeliest first; opinions are asked on the first ones (``judge.MOST``).
        sources: the files they edit.
        seconds: after which they come as they were.
    """
    if os.environ.get(SWITCH, "").lower() == "off":
        return Ordering(tuple(candidates), f"{NONE}turned off by {SWITCH}")
    if not candidates:
        return Ordering((), f"{NONE}there was nothing to rank")
    judge = await Judge.open(seconds=seconds)
    try:
        opinions = await judge.differences(candidates, sources)
    finally:
        await judge.close()
    if judge.note.startswith(NONE):
        return Ordering(tuple(candidates), judge.note, judge.out_of_time)
    scores = weighed([each.score for each in candidates], opinions)
    new = [replace(each, score=score) for each, score in zip(candidates, scores, strict=True)]
    ranked = sorted(enumerate(new), key=lambda pair: (-round(pair[1].score, 9), pair[0]))
    before = {id(changed): old for changed, old in zip(new, candidates, strict=True)}
    return Ordering(tuple(each for _, each in ranked), judge.note, before=before)


async def preference(
    candidates: Sequence[Candidate], sources: Mapping[str, ModuleSource], seconds: float | None = None
) -> tuple[list[float | None], str]:
    """Opinions on a few plausible patches, in their order, and who gave them.

    An opinion is a mean log-probability per token against the original's (``Judge.differences``):
    the higher, the more the lines look like what a person writes there.
    """
    if os.environ.get(SWITCH, "").lower() == "off":
        return [None] * len(candidates), f"{NONE}turned off by {SWITCH}"
    judge = await Judge.open(seconds=seconds)
    try:
        return await judge.differences(candidates, sources), judge.note
    finally:
        await judge.close()


def factor(opinion: float | None, weight: float = WEIGHT, bound: float = BOUND) -> float:
    """What a score is multiplied by; 1 without an opinion."""
    return 1.0 if opinion is None else math.exp(weight * max(-bound, min(bound, opinion)))


def weighed(scores: Sequence[float], opinions: Sequence[float | None], weight: float = WEIGHT) -> list[float]:
    """Scores with opinions on the first of them (or on all)."""
    factors = [factor(each, weight) for each in opinions if each is not None]
    # Those that nobody judged must not overtake the judged ones for being spared an opinion.
    middle = sorted(factors)[len(factors) // 2] if factors else 1.0
    padded = [*opinions, *[None] * (len(scores) - len(opinions))]
    return [
        score * (middle if opinion is None else factor(opinion, weight))
        for score, opinion in zip(scores, padded, strict=True)
    ]
