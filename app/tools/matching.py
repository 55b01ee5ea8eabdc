"""Where a piece of text is in a file, by decreasing strictness, and what to put there.

Exact first. Then whole lines with trailing white space ignored, then with all white
space folded, the replacement being re-indented to the file's own indentation. Tolerant
matches count only when there is one, or the caller says which.
"""

from __future__ import annotations

import bisect
import difflib
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...sandbox.base.files import TextFile

__all__ = ["Span", "Strategy", "find_spans", "find_tolerant", "splice_mixed"]

Strategy = Literal["exact", "trailing_whitespace", "whitespace_folding"]


@dataclass(frozen=True)
class Span:
    """A stretch of the text and its replacement; offsets in characters."""

    start: int
    end: int
    replacement: str
    line: int
    """1-based line of ``start``."""


def find_spans(text: str, old: str, new: str) -> tuple[Strategy, tuple[Span, ...]]:
    """All places of ``old`` in ``text`` under the strictest strategy that finds any.

    All three have ``\\n`` line ends; ``old`` is not empty.
    """
    exact = _exact(text, old, new)
    return ("exact", exact) if exact else find_tolerant(text, old, new)


def find_tolerant(text: str, old: str, new: str) -> tuple[Strategy, tuple[Span, ...]]:
    """As ``find_spans`` where the exact text is not there: whole lines, white space ignored."""
    trailing = _by_lines(text, old, new, str.rstrip, fold=False)
    if trailing:
        return "trailing_whitespace", trailing
    return "whitespace_folding", _by_lines(text, old, new, lambda line: " ".join(line.split()), fold=True)


def splice_mixed(data: bytes, file: TextFile, spans: Sequence[Span]) -> bytes:
    """The bytes of a file with mixed line ends after replacing ``spans`` of its text.

    Every line end outside the spans stays; new ones are like that of the line where the span
    begins. The replacements must be encodable.
    """
    raw = data[len(file.bom) :].decode(file.encoding)
    # Where the normalised text has one character and the raw text two.
    doubled = [match.start() - n for n, match in enumerate(re.finditer("\r\n", raw))]

    def raw_offset(offset: int) -> int:
        return offset + bisect.bisect_left(doubled, offset)

    for span in sorted(spans, key=lambda span: -span.start):
        start, end = raw_offset(span.start), raw_offset(span.end)
        ending = re.compile("\r\n|\r|\n").search(raw, start)
        newline = ending[0] if ending else file.newline
        raw = raw[:start] + span.replacement.replace("\n", newline) + raw[end:]
    return file.bom + raw.encode(file.encoding)


def _exact(text: str, old: str, new: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    position, line = 0, 1
    while (at := text.find(old, position)) >= 0:
        line += text.count("\n", position, at)
        spans.append(Span(at, at + len(old), new, line))
        line += old.count("\n")
        position = at + len(old)
    return tuple(spans)


def _by_lines(text: str, old: str, new: str, key: Callable[[str], str], *, fold: bool) -> tuple[Span, ...]:
    """Whole-line matches: ``key`` makes lines comparable."""
    lines = text.split("\n")
    wanted = old.split("\n")
    ends_line = wanted[-1] == "" and len(wanted) > 1
    if ends_line:
        wanted.pop()
    keys = [key(line) for line in wanted]
    if not any(keys):
        # Blank lines alone match everywhere.
        return ()
    have = [key(line) for line in lines]
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    spans: list[Span] = []
    index = 0
    while index + len(keys) <= len(lines):
        if have[index : index + len(keys)] != keys:
            index += 1
            continue
        found = lines[index : index + len(keys)]
        after = index + len(keys)
        replaced = _replacement(found, wanted, new, ends_line, text, fold)
        if replaced is not None:
            at_end = after >= len(lines)
            end = len(text) if at_end else offsets[after] - (0 if ends_line else 1)
            if at_end and ends_line:
                # The file has no newline at its end; the edit does not add one.
                replaced = replaced.removesuffix("\n")
            spans.append(Span(offsets[index], end, replaced, index + 1))
        index = after
    return tuple(spans)


def _replacement(
    found: Sequence[str], wanted: Sequence[str], new: str, ends_line: bool, text: str, fold: bool
) -> str | None:
    """``new`` as it should stand in the file: unchanged lines keep the file's own bytes."""
    fresh = new.split("\n")
    tail = ""
    if ends_line and fresh[-1] == "":
        fresh.pop()
        tail = "\n"
    shift = _Indentation.learn(found, wanted, fresh, text) if fold else None
    if fold and shift is None:
        return None
    out: list[str] = []
    matcher = difflib.SequenceMatcher(None, wanted, fresh, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            out.extend(found[old_start:old_end])
        elif shift is None:
            out.extend(fresh[new_start:new_end])
        else:
            out.extend(shift.apply(line) for line in fresh[new_start:new_end])
    return "\n".join(out) + (tail if out else "")


@dataclass(frozen=True)
class _Indentation:
    """How the search text's indentation translates to the file's."""

    known: dict[str, str]
    old_unit: str
    file_unit: str

    @classmethod
    def learn(
        cls, found: Sequence[str], wanted: Sequence[str], fresh: Sequence[str], text: str
    ) -> _Indentation | None:
        """From the matched lines; None when one indentation would have to become two."""
        known: dict[str, str] = {}
        for theirs, ours in zip(wanted, found, strict=True):
            if ours.strip() and known.setdefault(_indent(theirs), _indent(ours)) != _indent(ours):
                return None
        pairs = sorted(known.items(), key=lambda pair: len(pair[0]))
        for (low, low_file), (high, high_file) in itertools.pairwise(pairs):
            if high.startswith(low) and high_file.startswith(low_file) and len(high_file) > len(low_file):
                return cls(known, high[len(low) :], high_file[len(low_file) :])
        if all(theirs == ours for theirs, ours in pairs):
            return cls(known, "", "")
        return cls(known, _unit([*wanted, *fresh]), _unit(text.split("\n")))

    def apply(self, line: str) -> str:
        indent, body = _indent(line), line.lstrip(" \t")
        if not body:
            return line
        if indent in self.known:
            return self.known[indent] + body
        below = [theirs for theirs in self.known if indent.startswith(theirs)]
        if below:
            base = max(below, key=len)
            return self.known[base] + self._convert(indent[len(base) :]) + body
        above = [theirs for theirs in self.known if theirs.startswith(indent)]
        if above:
            base = min(above, key=len)
            less = self._convert(base[len(indent) :])
            ours = self.known[base]
            return (ours.removesuffix(less) if ours.endswith(less) else "") + body
        return line

    def _convert(self, extra: str) -> str:
        if self.old_unit and extra == self.old_unit * (len(extra) // len(self.old_unit)):
            return self.file_unit * (len(extra) // len(self.old_unit))
        return extra


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(lines: Sequence[str]) -> str:
    """One level of indentation as these lines use it: a tab, or so many spaces."""
    indents = [match[0] for line in lines if (match := re.match(r"[ \t]+(?=\S)", line))]
    if any(indent.startswith("\t") for indent in indents):
        return "\t"
    return " " * math.gcd(*(len(indent) for indent in indents))
