"""Where the hunks of a patch belong in a text: exactly first, tolerantly only where one place fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import edit_answers as answers
from .base import ToolResult
from .matching import Span, Strategy, find_tolerant
from .patch_text import Hunk

__all__ = ["Placed", "place_hunks"]


@dataclass(frozen=True)
class Placed:
    """A hunk with its place."""

    span: Span
    strategy: Strategy


@dataclass(frozen=True)
class _Lines:
    """A text by lines; an end of line is no line of its own."""

    text: str
    lines: Sequence[str]
    offsets: Sequence[int]
    count: int
    open_end: bool
    """The last line has no newline."""

    @classmethod
    def of(cls, text: str) -> _Lines:
        lines = text.split("\n")
        offsets = [0]
        for line in lines:
            offsets.append(offsets[-1] + len(line) + 1)
        open_end = lines[-1] != ""
        return cls(text, lines, offsets, len(lines) if open_end else len(lines) - 1, open_end)

    def offset(self, index: int) -> int:
        """Of the beginning of line ``index`` (0-based); the end of the text for the line after the last."""
        return min(self.offsets[index], len(self.text))

    def where(self, wanted: Sequence[str], start: int) -> list[int]:
        """Lines from ``start`` at which all of ``wanted`` stand."""
        if not wanted:
            return []
        size = len(wanted)
        first = wanted[0]
        return [
            index
            for index in range(start, self.count - size + 1)
            if self.lines[index] == first and list(self.lines[index : index + size]) == list(wanted)
        ]


def place_hunks(path: str, text: str, hunks: Sequence[Hunk]) -> list[Placed] | ToolResult:
    """The places of all hunks, in order and without overlap; or the refusal of the first that has none."""
    lines = _Lines.of(text)
    placed: list[Placed] = []
    cursor = shift = 0
    for number, hunk in enumerate(hunks, start=1):
        found = _place(path, lines, hunk, cursor, shift)
        if isinstance(found, ToolResult):
            which = f"hunk {number} of {len(hunks)}"
            return answers.refused_part(found, which, number)
        span, strategy, after = found
        placed.append(Placed(span, strategy))
        if hunk.line is not None:
            shift = span.line - hunk.line
        cursor = after
    return placed


def _place(
    path: str, lines: _Lines, hunk: Hunk, cursor: int, shift: int
) -> tuple[Span, Strategy, int] | ToolResult:
    """(span, strategy, first line after it)."""
    anchored = _anchored(lines, hunk, cursor)
    if hunk.anchors and not anchored:
        return answers.not_found(path, lines.text, hunk.anchors[-1])
    if not hunk.old:
        at = _insertion(lines, hunk, cursor, anchored)
        if at is None:
            return answers.ambiguous_hunk(path, [index + 1 for index in anchored])
        return _span(lines, hunk, at), "exact", at
    found = lines.where(hunk.old, cursor)
    if found:
        chosen = _choose(lines, hunk, found, anchored, shift)
        if chosen is None:
            return answers.ambiguous_hunk(path, [index + 1 for index in found])
        return _span(lines, hunk, chosen), "exact", chosen + len(hunk.old)
    old = "".join(f"{line}\n" for line in hunk.old)
    new = "".join(f"{line}\n" for line in hunk.new)
    strategy, spans = find_tolerant(lines.text, old, new)
    starts = {span.line - 1: span for span in spans if span.line > cursor}
    if not starts:
        return answers.not_found(path, lines.text, old)
    chosen = _choose(lines, hunk, sorted(starts), anchored, None)
    if chosen is None:
        return answers.ambiguous_hunk(path, [index + 1 for index in sorted(starts)], tolerant=True)
    return starts[chosen], strategy, chosen + len(hunk.old)


def _anchored(lines: _Lines, hunk: Hunk, cursor: int) -> list[int]:
    """First lines after each place where the anchors stand one below the other."""
    starts = [cursor]
    for anchor in hunk.anchors:
        after = min(starts, default=lines.count)
        exact = [index for index in range(after, lines.count) if lines.lines[index] == anchor]
        loose = [index for index in range(after, lines.count) if lines.lines[index].strip() == anchor.strip()]
        starts = [index + 1 for index in exact or loose]
    return starts if hunk.anchors else []


def _insertion(lines: _Lines, hunk: Hunk, cursor: int, anchored: Sequence[int]) -> int | None:
    """The line before which lines without any context go; None when it is not clear."""
    if hunk.anchors:
        return anchored[0] if len(anchored) == 1 else None
    if hunk.line is not None and not hunk.at_end:
        return max(cursor, min(hunk.line - 1, lines.count))
    return lines.count


def _choose(
    lines: _Lines, hunk: Hunk, found: Sequence[int], anchored: Sequence[int], shift: int | None
) -> int | None:
    """One of the places; ``shift``: how far the hunk before was from where it should be (None: no hints)."""
    if hunk.at_end:
        found = [index for index in found if index + len(hunk.old) == lines.count] or found
    if hunk.anchors:
        # The first place below each anchor; the anchor itself may be the first line of the hunk.
        below = {next((index for index in found if index >= start - 1), None): None for start in anchored}
        found = [index for index in below if index is not None]
    if len(found) == 1:
        return found[0]
    if shift is not None and hunk.line is not None:
        for wanted in (hunk.line - 1, hunk.line - 1 + shift):
            if wanted in found:
                return wanted
    return None


def _span(lines: _Lines, hunk: Hunk, at: int) -> Span:
    """The replacement of the old lines at line ``at`` (0-based)."""
    after = at + len(hunk.old)
    start, end = lines.offset(at), lines.offset(after)
    text = "".join(f"{line}\n" for line in hunk.new)
    if after >= lines.count:
        end = len(lines.text)
        if hunk.new:
            ends_open = hunk.new_open if hunk.marked() else lines.open_end
            text = text.removesuffix("\n") if ends_open else text
        if not hunk.old and lines.open_end:
            text = "\n" + text  # new lines after a last line without newline
    return Span(start, end, text, at + 1)
