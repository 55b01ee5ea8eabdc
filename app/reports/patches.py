"""A git patch as data: files and what each run of changed lines replaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_QUOTED = re.compile(r'\\([0-7]{3}|[abfnrtv"\\])')


@dataclass(frozen=True)
class Replacement:
    """Lines ``start`` ... ``start + removed - 1`` (1-based, of the old file) give way to ``text``."""

    start: int
    removed: int
    old: str
    text: str


@dataclass
class FilePatch:
    """The changes of one file; ``path`` is the old one where there was a file."""

    path: str
    new_path: str
    new_file: bool = False
    deleted: bool = False
    binary: bool = False
    replacements: list[Replacement] = field(default_factory=list[Replacement])


def parse_patch(patch: str) -> list[FilePatch]:
    """Reads what ``git diff`` writes; other lines are passed over."""
    # Only a newline ends a line of a patch; a form feed or U+2028 may be part of one.
    lines = patch.split("\n")
    files: list[FilePatch] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if line.startswith("diff --git "):
            files.append(FilePatch("", ""))
        elif not files:
            continue
        elif line.startswith("new file mode "):
            files[-1].new_file = True
        elif line.startswith("deleted file mode "):
            files[-1].deleted = True
        elif line.startswith(("GIT binary patch", "Binary files ")):
            files[-1].binary = True
        elif line.startswith(("rename from ", "copy from ")):
            files[-1].path = _name(line.split(" from ", 1)[1])
        elif line.startswith(("rename to ", "copy to ")):
            files[-1].new_path = _name(line.split(" to ", 1)[1])
        elif line.startswith("--- "):
            files[-1].path = _side(line[4:]) or files[-1].path
        elif line.startswith("+++ "):
            files[-1].new_path = _side(line[4:]) or files[-1].new_path
            files[-1].path = files[-1].path or files[-1].new_path
        elif match := _HUNK.match(line):
            old, new = int(match[2] or 1), int(match[4] or 1)
            # Of an empty range the number is that of the line before it.
            start = int(match[1]) + (1 if old == 0 else 0)
            end = _end_of_hunk(lines, position, old, new)
            files[-1].replacements += _replacements(lines[position:end], start)
            position = end
    return [file for file in files if file.path or file.new_path]


def _end_of_hunk(lines: list[str], position: int, old: int, new: int) -> int:
    while position < len(lines) and (old > 0 or new > 0 or lines[position].startswith("\\")):
        mark = lines[position][:1]
        old -= mark in ("-", " ", "")
        new -= mark in ("+", " ", "")
        position += 1
    return position


def _replacements(lines: list[str], start: int) -> Iterator[Replacement]:
    number = start
    removed: list[str] = []
    added: list[str] = []
    for line in [*lines, " "]:
        mark, text = line[:1], line[1:] + "\n"
        if mark == "-":
            removed.append(text)
        elif mark == "+":
            added.append(text)
        elif mark == "\\":
            # It belongs to the line above: that one has no newline.
            side = added or removed
            if side:
                side[-1] = side[-1].removesuffix("\n")
        else:
            if removed or added:
                yield Replacement(number, len(removed), "".join(removed), "".join(added))
                number += len(removed)
                removed, added = [], []
            number += 1


def _side(text: str) -> str:
    name = _name(text.removesuffix("\t"))
    return "" if name == "/dev/null" else name.split("/", 1)[-1]


def _name(text: str) -> str:
    if not (text.startswith('"') and text.endswith('"')):
        return text
    raw = bytearray()
    position, inner = 0, text[1:-1]
    while position < len(inner):
        match = _QUOTED.match(inner, position)
        if match is None:
            raw += inner[position].encode("utf-8", "surrogateescape")
            position += 1
        else:
            value = match[1]
            raw += bytes([int(value, 8)]) if value.isdigit() else _ESCAPES[value].encode()
            position = match.end()
    return raw.decode("utf-8", "surrogateescape")
