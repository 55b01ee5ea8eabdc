"""Lines that the language model would write at the most suspicious places, as one more kind of candidates.

At each place whole lines are sampled, given the text before it; each is tried instead of the line that
is there and before it. A tiny model seldom knows the fix, so this comes late in a search, is bounded by
counts, and what it finds is believed less than what the families write.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..candidates import Candidate
from ..family import Harm
from ..source import Edit, ModuleSource
from .excerpt import BEFORE
from .judge import NONE, Judge
from .ordering import SWITCH

FAMILY = "language-model"
TRUST = 0.5
"""How often such an edit is right when it passes every test, as for expressions built to pass."""
FAULT = "was not what a reader would expect here"
PLACES = 10
"""Lines looked at, the most suspicious ones."""
SAMPLES = 20
"""Lines sampled at each."""
_PRIOR = 0.3
_LONGEST_LINE = 200


@dataclass(frozen=True)
class Proposed:
    """Candidates, likeliest first, and whether the clock cut them short."""

    candidates: tuple[Candidate, ...]
    out_of_time: bool = False


async def propose_lines(
    suspicion: Mapping[str, Mapping[int, float]],
    sources: Mapping[str, ModuleSource],
    seed: int,
    seconds: float,
) -> Proposed:
    """Candidates made of sampled lines; none where there is no model.

    Args:
        suspicion: path -> line -> 0 to 1.
        seconds: after which what there is by then is given.
    """
    if os.environ.get(SWITCH, "").lower() == "off" or not suspicion:
        return Proposed(())
    places = sorted(
        ((level, path, line) for path, lines in suspicion.items() for line, level in lines.items()),
        key=lambda each: (-each[0], each[1], each[2]),
    )
    judge = await Judge.open(seconds=seconds)
    found: list[Candidate] = []
    try:
        for level, path, line in places[:PLACES]:
            source = sources[path]
            start = source.offset(line, 0)
            lines = await judge.lines(_before(source, start), SAMPLES, seed)
            if lines is None:
                break
            for text, mean in lines:
                found += _candidates(source, line, start, text, level * math.exp(max(-4.0, mean)))
    finally:
        await judge.close()
    late = judge.out_of_time and judge.note.startswith(NONE)
    return Proposed(tuple(sorted(found, key=lambda each: -round(each.score, 9))), late)


def _before(source: ModuleSource, start: int) -> str:
    """The lines before one, from the start of one, with newlines between them and the file's name on top."""
    text = source.text[:start]
    if len(text) > BEFORE:
        text = text[text.find("\n", len(text) - BEFORE) + 1 :]
    lines = text.splitlines()
    return "\n".join((f"# {source.path}", *lines))


def _candidates(source: ModuleSource, line: int, start: int, text: str, score: float) -> Iterator[Candidate]:
    new = text.rstrip()
    end = source.line_end(start)
    old = source.text[start:end]
    if not new.strip() or len(new) > _LONGEST_LINE or new.lstrip().startswith("#") or new == old.rstrip():
        return
    bare = old.rstrip("\r\n")
    shown = new.strip()
    replaced = Edit(start, start + len(bare), new)
    inserted = Edit(start, start, new + source.newline)
    for edit, what in ((replaced, f"writes {shown} instead"), (inserted, f"adds the line {shown}")):
        yield Candidate(
            source.path, line, line, (edit,), FAMILY, FAULT, what, Harm.LOOSENS, _PRIOR * score
        )  # fmt: skip
