"""A patch as files, hunks and lines, and the patch that is left when some of it is refused.

Every line is kept as it stands, carriage returns and "\\ No newline" marks included, so that what
is accepted applies byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Choice", "DiffFile", "DiffHunk", "parse_diff"]

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$", re.DOTALL)
_OCTAL = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"v": b"\v", b"f": b"\f"}
_WHOLE = ("added", "deleted", "binary", "copied")
"""Kinds that are taken or refused as a whole."""


@dataclass
class DiffHunk:
    """One ``@@`` section; ``lines`` with their first character."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: str
    lines: list[str] = field(default_factory=list[str])

    @property
    def growth(self) -> int:
        return self.new_count - self.old_count


@dataclass
class DiffFile:
    """What a patch does to one file."""

    header: list[str] = field(default_factory=list[str])
    hunks: list[DiffHunk] = field(default_factory=list[DiffHunk])
    binary: list[str] = field(default_factory=list[str])
    """The lines of a binary patch, or the one that says that files differ."""
    old_path: str = ""
    new_path: str = ""
    kind: str = "modified"
    """modified, added, deleted, renamed, copied or binary."""
    mode_change: str = ""
    """``100644 → 100755``, or empty."""

    @property
    def path(self) -> str:
        return self.old_path if self.kind == "deleted" else self.new_path or self.old_path

    @property
    def whole(self) -> bool:
        """It cannot be taken in parts."""
        return self.kind in _WHOLE or not self.hunks

    @property
    def has_head(self) -> bool:
        """Something happens to the file besides its hunks: a move or a mode."""
        return self.whole or self.kind == "renamed" or bool(self.mode_change)

    def counts(self) -> tuple[int, int]:
        """Lines added and removed."""
        added = sum(line.startswith("+") for hunk in self.hunks for line in hunk.lines)
        removed = sum(line.startswith("-") for hunk in self.hunks for line in hunk.lines)
        return added, removed


def parse_diff(text: str) -> list[DiffFile]:
    """The files of a unified diff as git writes it; text before, between and behind them is left out."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    files: list[DiffFile] = []
    file: DiffFile | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            file = DiffFile([line])
            files.append(file)
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            if file is None or file.hunks or any(each.startswith("--- ") for each in file.header):
                file = DiffFile()
                files.append(file)
            file.header += [line, lines[at + 1]]
            at += 1
        elif file is not None and (match := _HUNK.match(line)):
            hunk = DiffHunk(
                int(match[1]), int(match[2] or 1), int(match[3]), int(match[4] or 1), match[5].rstrip("\r")
            )
            file.hunks.append(hunk)
            at = _take_lines(lines, at + 1, hunk)
            continue
        elif file is not None and line.startswith(("GIT binary patch", "Binary files ")):
            end = at + 1
            while end < len(lines) and not lines[end].startswith(("diff --git ", "--- ")):
                end += 1
            file.binary = lines[at:end]
            at = end
            continue
        elif file is not None and not file.hunks and file.header and line and file.header[0][:5] == "diff ":
            file.header.append(line)
        at += 1
    for each in files:
        _describe(each)
    return [
        each for each in files if each.hunks or each.binary or each.kind != "modified" or each.mode_change
    ]


def _take_lines(lines: Sequence[str], at: int, hunk: DiffHunk) -> int:
    old, new = hunk.old_count, hunk.new_count
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith("\\")):
        line = lines[at]
        kind = line[:1]
        if kind == "+":
            new -= 1
        elif kind == "-":
            old -= 1
        elif kind in (" ", "", "\r"):
            old, new = old - 1, new - 1
            line = line if kind == " " else " " + line
        elif kind != "\\":
            break
        hunk.lines.append(line)
        at += 1
    return at


def _describe(file: DiffFile) -> None:
    modes: dict[str, str] = {}
    for line in file.header:
        word = line.rstrip("\r")
        if word.startswith("--- "):
            file.old_path = _path(word[4:], "a/")
        elif word.startswith("+++ "):
            file.new_path = _path(word[4:], "b/")
        elif word.startswith(("rename from ", "copy from ")):
            file.old_path = _path(word.split(" from ", 1)[1], "")
            file.kind = "renamed" if word.startswith("rename") else "copied"
        elif word.startswith(("rename to ", "copy to ")):
            file.new_path = _path(word.split(" to ", 1)[1], "")
        elif word.startswith("new file mode"):
            file.kind = "added"
        elif word.startswith("deleted file mode"):
            file.kind = "deleted"
        elif word.startswith(("old mode ", "new mode ")):
            modes[word[:3]] = word[9:]
    if len(modes) == 2:
        file.mode_change = f"{modes['old']} → {modes['new']}"
    if not file.old_path and not file.new_path:
        file.old_path, file.new_path = _from_git_line(file.header[0] if file.header else "")
    if file.old_path == "/dev/null":
        file.kind = "added"
    if file.new_path == "/dev/null":
        file.kind = "deleted"
    if file.binary and file.kind == "modified":
        file.kind = "binary"


def _path(raw: str, prefix: str) -> str:
    return unquoted(raw.split("\t")[0]).removeprefix(prefix)


def _from_git_line(line: str) -> tuple[str, str]:
    """Names of ``diff --git a/x b/x``, which are the same but for a rename, which names them elsewhere."""
    rest = line.removeprefix("diff --git ").rstrip("\r")
    if rest.startswith('"'):
        end = rest.find('" ', 1) + 1
        return unquoted(rest[:end]).removeprefix("a/"), unquoted(rest[end + 1 :]).removeprefix("b/")
    half = (len(rest) - 1) // 2
    return rest[:half].removeprefix("a/"), rest[half + 1 :].removeprefix("b/")


def unquoted(name: str) -> str:
    """A name as git quotes it: ``"h\\303\\251.txt"``."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name

    def restore(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPES.get(code, code)

    return _OCTAL.sub(restore, name[1:-1].encode("utf-8", "surrogateescape")).decode(
        "utf-8", "surrogateescape"
    )


class Choice:
    """Which parts of a patch are wanted. Everything is, at first."""

    HEAD = -1
    """In place of a hunk's number: the file's move or mode, or a file that is taken as a whole."""

    def __init__(self, files: Sequence[DiffFile]) -> None:
        self.files = files
        self._refused: set[tuple[int, int]] = set()

    def units(self, file: int) -> list[int]:
        """What can be decided in a file."""
        each = self.files[file]
        if each.whole:
            return [self.HEAD]
        return [*([self.HEAD] if each.has_head else []), *range(len(each.hunks))]

    def all_units(self) -> Iterator[tuple[int, int]]:
        for file in range(len(self.files)):
            for unit in self.units(file):
                yield file, unit

    def wanted(self, file: int, unit: int) -> bool:
        return (file, self.HEAD if self.files[file].whole else unit) not in self._refused

    def want(self, file: int, unit: int, wanted: bool) -> None:
        key = (file, self.HEAD if self.files[file].whole else unit)
        (self._refused.discard if wanted else self._refused.add)(key)

    def want_file(self, file: int, wanted: bool) -> None:
        for unit in self.units(file):
            self.want(file, unit, wanted)

    def share(self, file: int) -> tuple[int, int]:
        """Units wanted, and all of them."""
        units = self.units(file)
        return sum(self.wanted(file, unit) for unit in units), len(units)

    def patch(self) -> str:
        """What is wanted, as a patch for ``git apply``; empty when nothing is."""
        lines = [line for index in range(len(self.files)) for line in self._file_lines(index)]
        return "\n".join(lines) + "\n" if lines else ""

    def _file_lines(self, index: int) -> list[str]:
        file = self.files[index]
        head = self.wanted(index, self.HEAD)
        if file.whole:
            hunks = [line for hunk in file.hunks for line in _hunk_lines(hunk, hunk.new_start)]
            return [*file.header, *hunks, *file.binary] if head else []
        wanted = [self.wanted(index, number) for number in range(len(file.hunks))]
        if not any(wanted) and not (head and file.has_head):
            return []
        lines = _header(file, head, complete=all(wanted), content=any(wanted))
        every = kept = 0
        for hunk, take in zip(file.hunks, wanted, strict=True):
            if take:
                lines += _hunk_lines(hunk, hunk.new_start - every + kept)
                kept += hunk.growth
            every += hunk.growth
        return lines


def _header(file: DiffFile, head: bool, *, complete: bool, content: bool) -> list[str]:
    """The header without what was refused; hashes only where they are still true."""
    lines = file.header
    if not head and file.kind == "renamed":
        old = next((line[4:] for line in lines if line.startswith("--- ")), "")
        new = old.replace("a/", "b/", 1)
        # A tab behind the name says where it ends, except on the first line.
        return [f"diff --git {old} {new}".replace("\t", ""), f"--- {old}", f"+++ {new}"]
    left_out = () if complete and head else ("index ", "similarity ", "dissimilarity ")
    if not head:
        left_out += ("old mode ", "new mode ")
    if file.kind == "renamed" and not complete:
        # git wants a similarity beside a rename; the number itself means nothing to it.
        left_out = tuple(each for each in left_out if each != "similarity ")
    if not content:
        left_out += ("--- ", "+++ ")
    return [line for line in lines if not line.startswith(left_out)] if left_out else list(lines)


def _hunk_lines(hunk: DiffHunk, new_start: int) -> list[str]:
    old = f"{hunk.old_start}" if hunk.old_count == 1 else f"{hunk.old_start},{hunk.old_count}"
    new = f"{new_start}" if hunk.new_count == 1 else f"{new_start},{hunk.new_count}"
    heading = f" {hunk.heading}" if hunk.heading else ""
    return [f"@@ -{old} +{new} @@{heading}", *hunk.lines]
