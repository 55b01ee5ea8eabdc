"""What the language model is shown of a candidate: whole changed lines, and the text around them.

Changes of one file that lie close together share a piece of its text, which is then read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..candidates import Part
from ..source import ModuleSource, apply_edits

BEFORE = 900
"""Characters of context before the first change of a piece: about 250 tokens."""
LONGEST = 3000
"""Characters of a piece, at most, unless one change alone is longer."""
AFTER = 40
"""Characters of the next line that are judged with lines that come or go: only it is in both texts."""


@dataclass(frozen=True)
class Change:
    """The whole lines that a part of a candidate changes: ``start:end`` of the file become ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Piece:
    """Text that several changes share.

    ``members`` are numbers of parts; their ``changes`` are relative to ``text``.
    """

    text: str
    changes: tuple[Change, ...]
    members: tuple[int, ...]


def change_of(part: Part, source: ModuleSource) -> Change:
    """The lines that differ, without equal ones at either end; line ends are written as newlines."""
    text = source.text
    first = text.rfind("\n", 0, min(edit.start for edit in part.edits)) + 1
    last = text.find("\n", max(max(edit.end for edit in part.edits) - 1, first))
    last = len(text) if last < 0 else last + 1
    inner = [type(edit)(edit.start - first, edit.end - first, edit.text) for edit in part.edits]
    old = text[first:last].splitlines(keepends=True)
    new = apply_edits(text[first:last], inner).splitlines(keepends=True)
    while old and new and old[0] == new[0]:
        first += len(old[0])
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        last -= len(old[-1])
        del old[-1], new[-1]
    return Change(first, last, "".join(new))


def pieces(parts: Sequence[Part], sources: Mapping[str, ModuleSource]) -> list[Piece]:
    """The pieces of text to read for some candidates' parts, by path and place."""
    by_path: dict[str, list[tuple[Change, int]]] = {}
    for number, part in enumerate(parts):
        by_path.setdefault(part.path, []).append((change_of(part, sources[part.path]), number))
    found: list[Piece] = []
    for path in sorted(by_path):
        found += _of_file(path, sources[path].text, by_path[path])
    return found


def _of_file(path: str, text: str, changes: Iterable[tuple[Change, int]]) -> list[Piece]:
    found: list[Piece] = []
    group: list[tuple[Change, int]] = []
    start = 0
    for change, number in sorted(changes, key=lambda pair: (pair[0].start, pair[0].end, pair[1])):
        if group and change.end - start > LONGEST:
            found.append(_piece(path, text, start, group))
            group = []
        if not group:
            start = text.rfind("\n", 0, max(0, change.start - BEFORE)) + 1
        group.append((change, number))
    if group:
        found.append(_piece(path, text, start, group))
    return found


def _piece(path: str, text: str, start: int, group: Sequence[tuple[Change, int]]) -> Piece:
    # The name of the file says what it is about, and gives even a first line something before it.
    title = f"# {path}\n"
    end = max(judged_until(text, change) for change, _ in group)
    shift = len(title) - start
    moved = tuple(Change(each.start + shift, each.end + shift, each.text) for each, _ in group)
    return Piece(title + text[start:end], moved, tuple(number for _, number in group))


def judged_until(text: str, change: Change) -> int:
    """Where what is judged ends: after the changed lines, or some way into the next one that is not blank."""
    end = position = change.end
    if change.text and change.end > change.start:
        return end
    while position < len(text) and text[position].isspace():
        position += 1
    line_end = text.find("\n", position)
    line_end = len(text) if line_end < 0 else line_end + 1
    return min(line_end, end + AFTER)
