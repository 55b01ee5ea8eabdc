"""Several candidates as one."""

from __future__ import annotations

import itertools

from .candidates import Candidate, Part


def apart(one: Candidate, two: Candidate) -> bool:
    """Whether the edits touch different text (and do not insert at the same place)."""
    for first in one.parts:
        for second in two.parts:
            if first.path != second.path:
                continue
            edits = sorted((*first.edits, *second.edits))
            for before, after in itertools.pairwise(edits):
                if after.start < before.end or after.start == before.start:
                    return False
    return True


def joined(one: Candidate, two: Candidate, score: float) -> Candidate:
    """Both edits, of one file or of several."""
    first, second = (one, two) if _place(one) <= _place(two) else (two, one)
    parts = {part.path: part for part in first.parts}
    for part in second.parts:
        parts[part.path] = _both(parts[part.path], part) if part.path in parts else part
    whole = Candidate(
        path=first.path,
        line=first.line,
        end_line=first.end_line,
        edits=first.edits,
        family=first.family if first.family == second.family else f"{first.family}+{second.family}",
        fault=first.fault,
        description=f"{first.description}, and {second.description}",
        harm=max(one.harm, two.harm),
        score=score,
    )
    return whole.with_parts(parts.values())


def _place(candidate: Candidate) -> tuple[str, int, int, str]:
    edit = candidate.edits[0]
    return (candidate.path, edit.start, edit.end, edit.text)


def _both(first: Part, second: Part) -> Part:
    return Part(
        path=first.path,
        line=min(first.line, second.line),
        end_line=max(first.end_line, second.end_line),
        edits=tuple(sorted((*first.edits, *second.edits))),
        fault=first.fault if first.fault == second.fault else f"{first.fault} and {second.fault}",
    )
