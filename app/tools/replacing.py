"""One replacement in the bytes of one file: which place, and the bytes afterwards. Touches no disk."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import TextFile
from . import edit_answers as answers
from .base import ToolResult
from .changes import fitting, unix
from .invisible import real
from .matching import Span, Strategy, find_spans, splice_mixed
from .paths import printable

__all__ = ["Replaced", "Replacement", "replace", "spliced"]


class Replacement(Protocol):
    """What is replaced by what, and how to tell one place from others."""

    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str: ...
    @property
    def occurrence(self) -> int | None: ...
    @property
    def line(self) -> int | None: ...
    @property
    def replace_all(self) -> bool: ...


@dataclass(frozen=True)
class Replaced:
    """The outcome in memory; ``before`` and ``after`` are texts with ``\\n`` line ends."""

    data: bytes
    before: str
    after: str
    strategy: Strategy
    spans: tuple[Span, ...]


def replace(path: str, data: bytes, wanted: Replacement) -> Replaced | ToolResult:
    """The file after the replacement, or a refusal for the model.

    Raises:
        ToolError: nothing would change, or the encoding of the file cannot hold the new text.
    """
    file = TextFile.from_bytes(Path(printable(path)), data)
    old, new = unix(wanted.old), unix(wanted.new)
    if old != real(old) and old.encode("utf-8", "surrogatepass") not in data:
        # Invisible characters are shown as marks; what is meant are the characters themselves.
        old, new = real(old), real(new)
    if "\0" in new:
        raise ToolError("new holds a NUL character, which no text file has")
    if not old:
        if file.text:
            lines = file.text.count("\n") + 1
            raise ToolError(
                f"{printable(path)} exists and has {lines} lines", hint="give the old text to replace"
            )
        return spliced(path, data, file, "exact", (Span(0, 0, new, 1),))
    if old == new:
        raise ToolError("old and new are the same text; nothing would change")
    strategy, found = find_spans(file.text, old, new)
    if not found:
        return answers.not_found(path, file.text, old)
    chosen = _choose(found, strategy, wanted)
    if not chosen:
        return answers.ambiguous(path, strategy, found, wanted.line)
    return spliced(path, data, file, strategy, chosen)


def spliced(path: str, before: bytes, file: TextFile, strategy: Strategy, spans: Sequence[Span]) -> Replaced:
    """Puts replacements into a file.

    Raises:
        ToolError: nothing would change, or the encoding of the file cannot hold the new text.
    """
    text = file.text
    for span in sorted(spans, key=lambda span: -span.start):
        text = text[: span.start] + span.replacement + text[span.end :]
    # Also for mixed line ends: this is what refuses text the encoding cannot hold.
    data = file.with_text(text).to_bytes()
    if file.mixed_newlines:
        # Lines that old and new text share keep their own ends.
        data = splice_mixed(
            before, file, [part for span in spans for part in _changed_parts(file.text, span)]
        )
    if data == before:
        raise ToolError(f"{printable(path)} already reads like this; nothing would change")
    return Replaced(fitting(data), file.text, text, strategy, tuple(spans))


def _changed_parts(text: str, span: Span) -> list[Span]:
    """The stretches of whole lines within a span that really change."""
    old = text[span.start : span.end].splitlines(keepends=True)
    new = span.replacement.splitlines(keepends=True)
    offsets = list(itertools.accumulate(map(len, old), initial=span.start))
    return [
        Span(offsets[first], offsets[last], "".join(new[start:end]), span.line + first)
        for tag, first, last, start, end in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    ]


def _choose(found: Sequence[Span], strategy: Strategy, wanted: Replacement) -> tuple[Span, ...]:
    """The spans to replace; none when it is not clear which."""
    if wanted.occurrence is not None:
        if wanted.occurrence > len(found):
            raise ToolError(f"old occurs {len(found)} times; there is no occurrence {wanted.occurrence}")
        return (found[wanted.occurrence - 1],)
    if wanted.replace_all and (strategy == "exact" or len(found) == 1):
        return tuple(found)
    if len(found) == 1:
        return tuple(found)
    if wanted.line is not None:
        line = wanted.line
        ranked = sorted(found, key=lambda span: abs(span.line - line))
        if abs(ranked[0].line - line) < abs(ranked[1].line - line):
            return (ranked[0],)
    return ()
