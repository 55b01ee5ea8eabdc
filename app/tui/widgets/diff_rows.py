"""A patch as rows of a screen: which line of which hunk stands where, without any drawing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .diff_model import DiffFile, DiffHunk

__all__ = ["Row", "changed_words", "split_rows", "unified_rows", "widest"]

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
LONGEST_COMPARED = 400
"""Characters of a line that are compared word by word."""


class Row(NamedTuple):
    """A row: a file's or hunk's title, or lines. ``left`` and ``right`` index the hunk's lines."""

    kind: str
    """file, hunk, line, note or gap."""
    file: int
    hunk: int = -1
    left: int = -1
    right: int = -1
    old: int = 0
    new: int = 0
    """Line numbers; 0: none on this side."""
    partner: int = -1
    """unified: the line it replaces, or is replaced by."""


def unified_rows(files: Sequence[DiffFile]) -> Iterator[Row]:
    """One row a line."""
    for index, file in enumerate(files):
        yield from _titles(index, file, first=index == 0)
        for number, hunk in enumerate(file.hunks):
            yield Row("hunk", index, number)
            old, new = hunk.old_start, hunk.new_start
            partners = _partners(hunk)
            for at, line in enumerate(hunk.lines):
                kind = line[0]
                if kind == "-":
                    yield Row("line", index, number, at, -1, old, 0, partners.get(at, -1))
                    old += 1
                elif kind == "+":
                    yield Row("line", index, number, -1, at, 0, new, partners.get(at, -1))
                    new += 1
                elif kind == "\\":
                    yield Row("note", index, number, at, at)
                else:
                    yield Row("line", index, number, at, at, old, new)
                    old, new = old + 1, new + 1


def split_rows(files: Sequence[DiffFile]) -> Iterator[Row]:
    """Old on the left, new on the right; what replaces something stands beside it."""
    for index, file in enumerate(files):
        yield from _titles(index, file, first=index == 0)
        for number, hunk in enumerate(file.hunks):
            yield Row("hunk", index, number)
            old, new = hunk.old_start, hunk.new_start
            removed: list[int] = []
            added: list[int] = []
            for at, line in enumerate([*hunk.lines, " "]):
                kind = line[0]
                if kind == "-":
                    removed.append(at)
                elif kind == "+":
                    added.append(at)
                elif kind == "\\":
                    continue
                else:
                    for step in range(max(len(removed), len(added))):
                        left = removed[step] if step < len(removed) else -1
                        right = added[step] if step < len(added) else -1
                        row_old, row_new = (old if left >= 0 else 0), (new if right >= 0 else 0)
                        yield Row("line", index, number, left, right, row_old, row_new)
                        old, new = old + (left >= 0), new + (right >= 0)
                    removed, added = [], []
                    if at < len(hunk.lines):
                        yield Row("line", index, number, at, at, old, new)
                        old, new = old + 1, new + 1


def _titles(index: int, file: DiffFile, *, first: bool) -> list[Row]:
    gap = [] if first else [Row("gap", index)]
    note = [Row("note", index)] if file.binary or not file.hunks else []
    return [*gap, Row("file", index), *note]


def _partners(hunk: DiffHunk) -> dict[int, int]:
    """Removed lines with the added ones that take their places."""
    found: dict[int, int] = {}
    removed: list[int] = []
    added: list[int] = []
    for at, line in enumerate([*hunk.lines, " "]):
        if line[0] == "-":
            removed.append(at)
        elif line[0] == "+":
            added.append(at)
        elif line[0] == " ":
            for left, right in zip(removed, added, strict=False):
                found[left], found[right] = right, left
            removed, added = [], []
    return found


def widest(files: Sequence[DiffFile]) -> int:
    """Cells of the longest line, at least: wide characters count twice."""
    longest = 0
    for file in files:
        for hunk in file.hunks:
            for line in hunk.lines:
                size = len(line) if line.isascii() else 2 * len(line)
                longest = max(longest, size + 3 * line.count("\t"))
    return longest


def changed_words(old: str, new: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Which characters of both lines differ; nothing when the lines have little in common."""
    if max(len(old), len(new)) > LONGEST_COMPARED:
        return [], []
    left, right = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < 0.4:
        return [], []
    spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for action, *bounds in matcher.get_opcodes():
        if action == "equal":
            continue
        for words, (start, end), found in zip((left, right), (bounds[:2], bounds[2:]), spans, strict=True):
            begin = sum(map(len, words[:start]))
            length = sum(map(len, words[start:end]))
            if length:
                found.append((begin, begin + length))
    return spans
