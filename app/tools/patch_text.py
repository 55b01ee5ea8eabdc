"""Reading patches: unified diffs and the ``*** Begin Patch`` form, both as models write them.

Line counts in hunk headers are taken as a help, not as truth: models get them wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...sandbox.base.errors import ToolError
from .changes import unix

__all__ = ["FilePatch", "Hunk", "parse_patch"]

Action = Literal["add", "update", "delete"]

_HUNK = re.compile(r"^@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@+ ?(.*)$")
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_SECTION = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_OCTAL = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b'"': b'"', b"\\": b"\\", b"a": b"\a", b"b": b"\b"}


@dataclass
class Hunk:
    """One place: ``old`` lines become ``new`` lines."""

    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])
    line: int | None = None
    """Where the patch says it is (1-based, in the old file), or None."""
    anchors: tuple[str, ...] = ()
    """Lines that stand somewhere above it, outermost first."""
    at_end: bool = False
    """It is the end of the file."""
    old_open: bool = False
    new_open: bool = False
    """The last line has no newline, says the patch."""

    def marked(self) -> bool:
        """Whether the patch says anything about the newline at the end of the file."""
        return self.old_open or self.new_open


@dataclass
class FilePatch:
    """What happens to one file."""

    action: Action
    path: str
    target: str | None = None
    """The new path of a moved file."""
    hunks: list[Hunk] = field(default_factory=list[Hunk])
    executable: bool | None = None
    """True, False: a mode the patch asks for; None: as it is."""


def parse_patch(text: str) -> list[FilePatch]:
    """The files of a patch, in order.

    Raises:
        ToolError: with the line that makes no sense.
    """
    lines = unix(text).split("\n")
    if any(line.strip() == _BEGIN for line in lines):
        files = _parse_begin(lines)
    else:
        files = _UnifiedReader(lines).files()
    if not files:
        raise ToolError(
            "the patch changes no file",
            hint="give a unified diff (---, +++, @@) or *** Begin Patch with *** Update File: sections",
        )
    return files


# ---------------------------------------------------------------- *** Begin Patch


def _parse_begin(lines: list[str]) -> list[FilePatch]:
    start = next(number for number, line in enumerate(lines) if line.strip() == _BEGIN)
    files: list[FilePatch] = []
    hunk: Hunk | None = None
    ended = False
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        if line.strip() == _END:
            ended = True
            break
        section = _SECTION.match(line.rstrip())
        file = files[-1] if files else None
        if section is not None:
            action: dict[str, Action] = {"Add": "add", "Update": "update", "Delete": "delete"}
            file = FilePatch(action[section[1]], section[2].strip())
            files.append(file)
            hunk = Hunk() if file.action == "add" else None
            if hunk is not None:
                file.hunks.append(hunk)
        elif file is None:
            if line.strip():
                raise _bad(number, line, "a *** Add, Update or Delete File: line is needed first")
        elif line.startswith("*** Move to: ") and file.action == "update" and not file.hunks:
            file.target = line.removeprefix("*** Move to: ").strip()
        elif line.strip() == "*** End of File" and hunk is not None:
            hunk.at_end = True
        elif file.action == "add" and hunk is not None:
            if line and not line.startswith("+"):
                raise _bad(number, line, "each line of an added file begins with +")
            # A blank line is one that lost its plus; at the end of a section it is none.
            hunk.new.append(line[1:])
        elif file.action == "delete":
            if line.strip():
                raise _bad(number, line, "a *** Delete File: section has no lines")
        elif line.startswith("@@"):
            hunk = _next_hunk(file, hunk, line)
        else:
            if hunk is None:
                hunk = Hunk()
                file.hunks.append(hunk)
            if not _body(hunk, line):
                raise _bad(number, line, "lines of a hunk begin with a space, - or +")
    if not ended:
        raise ToolError("the patch has no *** End Patch, so it may be cut off", hint="send it whole")
    for file in files:
        _trim(file)
    return files


def _next_hunk(file: FilePatch, hunk: Hunk | None, line: str) -> Hunk:
    numbered = _HUNK.match(line)
    anchor = (numbered[5] if numbered else line[2:].strip().removesuffix("@@")).strip()
    if hunk is not None and not hunk.old and not hunk.new and not numbered:
        # Several @@ lines in a row lead from the outer place to the inner one.
        hunk.anchors = (*hunk.anchors, anchor) if anchor else hunk.anchors
        return hunk
    made = Hunk(anchors=(anchor,) if anchor and not numbered else ())
    made.line = int(numbered[1]) if numbered else None
    file.hunks.append(made)
    return made


def _body(hunk: Hunk, line: str) -> bool:
    """Takes one line of a hunk; False when it is none."""
    kind, rest = line[:1], line[1:]
    if kind in ("", " "):
        hunk.old.append(rest)
        hunk.new.append(rest)
    elif kind == "-":
        hunk.old.append(rest)
    elif kind == "+":
        hunk.new.append(rest)
    elif line.startswith("\\ No newline"):
        pass
    else:
        return False
    return True


def _trim(file: FilePatch) -> None:
    """Blank lines between sections are no context."""
    for hunk in file.hunks:
        if file.action == "add":
            while hunk.new and not hunk.new[-1]:
                hunk.new.pop()
            continue
        while hunk.old and hunk.new and not hunk.old[-1] and not hunk.new[-1] and hunk is file.hunks[-1]:
            hunk.old.pop()
            hunk.new.pop()
    file.hunks[:] = [hunk for hunk in file.hunks if hunk.old or hunk.new or file.action == "add"]


# ---------------------------------------------------------------- unified diffs


class _UnifiedReader:
    """Goes through the lines of a unified diff."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._old_left = self._new_left = 0
        """Lines that the header of the present hunk still announces."""

    def _wanting(self) -> bool:
        return self._old_left > 0 or self._new_left > 0

    def files(self) -> list[FilePatch]:
        found: list[FilePatch] = []
        git: FilePatch | None = None
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                git = FilePatch("update", "")
                found.append(git)
            elif line.startswith(("GIT binary patch", "Binary files ")):
                raise ToolError("the patch holds binary content, which this tool does not apply")
            elif line.startswith("--- ") and self._peek().startswith("+++ "):
                if git is None or git.hunks:
                    git = FilePatch("update", "")
                    found.append(git)
                self._header(git)
                continue
            elif line.startswith("@@"):
                if git is None or not git.path:
                    raise _bad(self._at + 1, line, "a hunk before any --- and +++ line")
                git.hunks.append(self._hunk())
                continue
            elif git is not None:
                self._extended(git, line)
            self._at += 1
        for file in found:
            if not file.path and not (file.target or file.executable is not None):
                raise ToolError("the patch has a diff --git line without a change", hint="send it whole")
        return [file for file in found if file.path]

    def _peek(self) -> str:
        return self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""

    def _header(self, file: FilePatch) -> None:
        old = _name(self._lines[self._at].removeprefix("--- "))
        new = _name(self._peek().removeprefix("+++ "))
        self._at += 2
        if old != "/dev/null" and new != "/dev/null":
            if old.startswith("a/") and new.startswith("b/"):
                old, new = old[2:], new[2:]
            file.path = old
            file.target = new if new != old else None
        elif old == "/dev/null":
            file.action, file.path, file.target = "add", new.removeprefix("b/"), None
        else:
            file.action, file.path, file.target = "delete", old.removeprefix("a/"), None

    def _extended(self, file: FilePatch, line: str) -> None:
        """Lines between ``diff --git`` and the first hunk."""
        if line.startswith("rename from "):
            file.path = _name(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            file.target = _name(line.removeprefix("rename to "))
        elif line.startswith(("copy from ", "copy to ")):
            raise ToolError(
                "the patch copies a file, which this tool does not do", hint="add it as a new file"
            )
        elif line.startswith(("new file mode ", "new mode ")):
            mode = line.rsplit(" ", 1)[1]
            if mode not in ("100644", "100755"):
                raise ToolError(f"the patch makes a file of mode {mode}, which this tool does not do")
            file.executable = mode == "100755"
            self._name_of_git_line(file)
            if line.startswith("new file"):
                file.action = "add"
        elif line.startswith("deleted file mode "):
            self._name_of_git_line(file)
            file.action = "delete"

    def _name_of_git_line(self, file: FilePatch) -> None:
        """A change without ``---`` and ``+++`` (mode, empty file) has its name in the first line only."""
        at = self._at
        while not self._lines[at].startswith("diff --git "):
            at -= 1
        names = self._lines[at].removeprefix("diff --git ")
        half = names[: len(names) // 2]
        if not file.path and names == f"{half} b/{half[2:]}":
            file.path = half.removeprefix("a/")

    def _hunk(self) -> Hunk:
        line = self._lines[self._at]
        header = _HUNK.match(line)
        self._at += 1
        hunk = Hunk()
        self._old_left = self._new_left = 0
        if header is not None:
            self._old_left = int(header[2]) if header[2] is not None else 1
            self._new_left = int(header[4]) if header[4] is not None else 1
            # With no old lines the number is that of the line before.
            hunk.line = int(header[1]) + (0 if self._old_left else 1)
        previous = ""
        for kind, rest in self._lines_of_hunk():
            if kind == "\\":
                hunk.old_open = hunk.old_open or previous in " -"
                hunk.new_open = hunk.new_open or previous in " +"
                continue
            if kind in " -":
                hunk.old.append(rest)
                self._old_left -= 1
            if kind in " +":
                hunk.new.append(rest)
                self._new_left -= 1
            previous = kind
        if not hunk.old and not hunk.new:
            raise _bad(self._at, line, "the hunk has no lines")
        return hunk

    def _lines_of_hunk(self) -> Iterator[tuple[str, str]]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(("diff --git ", "@@")):
                return
            if line.startswith("--- ") and self._peek().startswith("+++ ") and not self._wanting():
                return
            kind = line[:1]
            if kind == "":
                # A blank context line that lost its space; after the announced lines it is none.
                if not self._wanting() or self._at == len(self._lines) - 1:
                    return
                kind = " "
            if kind not in " -+\\":
                if self._wanting():
                    raise _bad(self._at + 1, line, "lines of a hunk begin with a space, - or +")
                return
            if line == "-- " and not self._wanting():
                return  # the signature of a mailed patch
            self._at += 1
            yield kind, line[1:]


def _name(text: str) -> str:
    """A file name of a header line: without time stamp, and unquoted."""
    text = text.split("\t")[0].rstrip()
    if not (len(text) > 1 and text.startswith('"') and text.endswith('"')):
        return text
    raw = text[1:-1].encode("utf-8", "surrogateescape")

    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPES.get(code, code)

    return _OCTAL.sub(plain, raw).decode("utf-8", "surrogateescape")


def _bad(number: int, line: str, why: str) -> ToolError:
    return ToolError(f"line {number} of the patch, {line[:80]!r}, cannot be read: {why}; nothing was changed")
