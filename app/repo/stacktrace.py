"""Reads Python tracebacks out of text: the interpreter's own, pytest's styles, CI logs.

Used where the exception itself is out of reach: logs of other machines, issue texts,
output of plain commands. Tests that we run ourselves are never read this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .foreign_paths import PathIndex
from .testing.report import TraceFrame
from .testing.textclean import strip_escapes


@dataclass(frozen=True)
class Trace:
    """One exception with the way to it."""

    frames: tuple[TraceFrame, ...]
    """Outermost first."""
    exception: str
    """Class name as printed, possibly dotted; "" when the text ends before it."""
    message: str = ""
    causes: tuple[Trace, ...] = ()
    """What it was raised from or during, oldest first; for a group also its members."""
    test: str = ""
    """Heading of the pytest section it stood in (``TestX.test_y``), or ""."""
    first_line: int = 0
    """Index of the first line in the text, from 0."""

    def all_frames(self) -> tuple[TraceFrame, ...]:
        """Frames of the causes, then its own."""
        return tuple(frame for cause in self.causes for frame in cause.all_frames()) + self.frames


_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIXES = (
    re.compile(rf"^[^\t\n]*\t[^\t\n]*\t\ufeff?{_STAMP} ?"),  # job, step, time: logs fetched by a client
    re.compile(rf"^\ufeff?\[?{_STAMP}\]? ?"),
    re.compile(r"^\x1b_bk;t=\d+\x07"),
    re.compile(r"^_bk;t=\d+"),
    re.compile(r"^\[\d\d:\d\d:\d\d(?:\.\d+)?\] ?"),
    re.compile(r"^[A-Za-z0-9_.-]+[-_]\d+ +\| "),  # docker compose
    re.compile(r"^#\d+ \d+\.\d+ "),  # docker build
    re.compile(r"^##\[(?:error|warning|debug|section|command|group|endgroup)\]"),
    re.compile(r"^::(?:error|warning|group|debug)(?: [^:]*)?::"),
)


def plain_lines(text: str) -> list[str]:
    """Lines without escape sequences and without what CI systems put in front of them."""
    lines: list[str] = []
    for raw in text.replace("\r\n", "\n").split("\n"):
        line = raw
        for pattern in _PREFIXES:
            line = pattern.sub("", line, count=1)
        line = strip_escapes(line).rsplit("\r", 1)[-1]
        for pattern in _PREFIXES:
            line = pattern.sub("", line, count=1)
        lines.append(line)
    return lines


_HEADER = re.compile(
    r"^(?P<indent>[\s|+]*?)(?P<group>Exception Group )?Traceback \(most recent call last\):\s*$"
)
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(?:\.<locals>)?[\w.]*)(?P<rest>: ?(?P<message>.*))?$")
_MACHINERY = re.compile(r"[/\\](?:_pytest|pluggy)[/\\]")
_MARKERS = re.compile(r"^\s*[~^]+[~^\s]*$")
_REPEATED = re.compile(r"^\s*\[Previous line repeated \d+ more times?\]")
_CHAIN = re.compile(
    r"^\s*(?:During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:)\s*$"
)
_GROUP_BAR = re.compile(r"^\s*[|](?: (?P<rest>.*)|(?P<empty>))$")
_GROUP_RULE = re.compile(r"^\s*\+-\+?-* ?(?:\d+|\.\.\.)? ?-*\s*$|^\s*\+-+\s*$")


def _unbarred(line: str) -> str:
    """A line of an exception group without the bars drawn to its left."""
    for _ in range(12):
        match = _GROUP_BAR.match(line)
        if not match:
            return line
        line = match["rest"] or ""
    return line


class _PythonReader:
    """Reads one traceback that starts at a given line."""

    def __init__(self, lines: Sequence[str], start: int, index: PathIndex) -> None:
        self._lines = lines
        self._at = start
        self._index = index
        header = _HEADER.match(lines[start])
        self._group = bool(header and (header["group"] or "|" in header["indent"] or "+" in header["indent"]))
        self._indent = "" if self._group or not header else header["indent"]

    def _line(self, at: int) -> str:
        line = self._lines[at]
        if self._group:
            return _unbarred(line).lstrip() if _HEADER.match(line) else _unbarred(line)
        return line.removeprefix(self._indent)

    def read(self) -> tuple[Trace | None, int]:
        """The trace and the index of the first line behind it."""
        first = self._at
        frames: list[TraceFrame] = []
        at = self._at + 1
        while at < len(self._lines):
            match = _FRAME.match(self._line(at))
            if match:
                at, frame = self._frame(at, match)
                frames.append(frame)
            elif _REPEATED.match(self._line(at)) or (frames and _MARKERS.match(self._line(at))):
                at += 1
            else:
                break
        project = [frame for frame in frames if not _MACHINERY.search(frame.path)]
        frames = project or frames
        name, message, at = self._exception(at)
        if not frames and not name:
            return None, self._at + 1
        return Trace(tuple(frames), name, message, first_line=first), at

    def _frame(self, at: int, match: re.Match[str]) -> tuple[int, TraceFrame]:
        own_indent = len(self._line(at)) - len(self._line(at).lstrip())
        code = ""
        at += 1
        while at < len(self._lines):
            line = self._line(at)
            indent = len(line) - len(line.lstrip())
            if not line.strip() or indent <= own_indent or _FRAME.match(line) or _REPEATED.match(line):
                break
            if not _MARKERS.match(line) and not code:
                code = line.strip()
            at += 1
        frame = self._index.frame(match["path"], int(match["line"]), match["function"] or "<module>", code)
        return at, frame

    def _exception(self, at: int) -> tuple[str, str, int]:
        if at >= len(self._lines):
            return "", "", at
        match = _EXCEPTION.match(self._line(at).strip() if self._group else self._line(at).rstrip())
        if not match:
            return "", "", at
        message = [match["message"] or ""]
        at += 1
        while at < len(self._lines) and len(message) < 50:
            line = self._line(at)
            raw = self._lines[at]
            stop = not line.strip() or _HEADER.match(raw) or _CHAIN.match(line) or _GROUP_RULE.match(raw)
            if stop or _ends_message(line) or (self._group and not _GROUP_BAR.match(raw)):
                break
            message.append(line.rstrip())
            at += 1
        return match["name"], "\n".join(message).strip(), at


_NEXT_THING = re.compile(r"^(?:={5,}|-{5,}|_{5,}|(?:FAIL|ERROR|FAILED|ok|Ran \d+ tests?)\b|\+ |\$ |make: )")


def _ends_message(line: str) -> bool:
    return _NEXT_THING.match(line) is not None


_SECTION = re.compile(r"^_{2,} (?P<name>\S.*?) _{2,}\s*$")
_DIVIDER = re.compile(r"^(?:_ )+_?\s*$|^={5,}.*$|^-{5,}.*$")
_LOCATION = re.compile(
    r"^(?P<path>(?:[A-Za-z]:)?[^\s:*?\"<>|][^:*?\"<>|\n]*\.pyx?):(?P<line>\d+):"
    r"(?: in (?P<function>\S.*?)| (?P<exception>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?)?\s*$"
)
_POINTED = re.compile(r"^>\s?(?P<code>\s*\S.*)$")
_RAISED = re.compile(r"^E(?:\s{3,}|\s+|$)(?P<text>.*)$")
_DEFINED = re.compile(r"^[ >]\s*(?:async )?def (?P<name>\w+)\(")


class _PytestReader:
    """Reads pytest's long, short and line styles; one trace per exception in a section."""

    def __init__(self, lines: Sequence[str], index: PathIndex) -> None:
        self._lines = lines
        self._index = index
        self.traces: list[Trace] = []
        self._section = ""
        self._reset()

    def _reset(self) -> None:
        self._frames: list[TraceFrame] = []
        self._raised: list[str] = []
        self._code = ""
        self._function = ""
        self._exception = ""
        self._message = ""
        self._first = -1

    def read(self, skip: frozenset[int]) -> None:
        """Goes through all lines but those that native tracebacks took."""
        chained: list[Trace] = []
        for number, line in enumerate(self._lines):
            if number in skip:
                continue
            section = _SECTION.match(line)
            if section or re.match(r"^={5,}", line):
                self._close(chained)
                chained = []
                self._section = section["name"] if section else ""
            elif _CHAIN.match(line):
                trace = self._take(chained)
                chained = [*chained, trace] if trace else chained
            else:
                self._line(number, line)
        self._close(chained)

    def _line(self, number: int, line: str) -> None:
        raised, pointed, defined = _RAISED.match(line), _POINTED.match(line), _DEFINED.match(line)
        location = _LOCATION.match(line)
        if location:
            if self._first < 0:
                self._first = number
            self._location(number, location)
        elif raised and (self._code or self._frames or self._section):
            self._raised.append(raised["text"])
        elif pointed:
            self._code = pointed["code"].strip()
        if defined and not location:
            self._function = defined["name"]

    def _location(self, number: int, match: re.Match[str]) -> None:
        code, function = self._code, match["function"] or self._function
        if match["function"]:
            following = self._lines[number + 1] if number + 1 < len(self._lines) else ""
            code = following.strip() if following.startswith("    ") else ""
        elif not self._section and not self._raised:
            return
        if match["exception"]:
            self._exception = match["exception"]
            self._message = match["message"] or ""
        self._frames.append(self._index.frame(match["path"], int(match["line"]), function, code))
        self._code, self._function = "", ""

    def _take(self, causes: Sequence[Trace]) -> Trace | None:
        frames, raised = tuple(self._frames), self._raised
        exception, message = self._exception, self._message
        first = self._first
        self._reset()
        if not frames:
            return None
        if raised:
            match = _EXCEPTION.match(raised[0].strip())
            message = "\n".join(text.rstrip() for text in raised).strip()
            if match and match["rest"] is not None and _looks_like_class(match["name"]):
                exception = exception or match["name"]
                message = message[len(match["name"]) :].lstrip(": ")
            elif match and _looks_like_class(match["name"]) and len(raised) == 1:
                exception, message = exception or match["name"], ""
            elif not exception:
                exception = "AssertionError" if raised[0].lstrip().startswith("assert") else ""
        return Trace(frames, exception, message, tuple(causes), self._section, max(first, 0))

    def _close(self, chained: Sequence[Trace]) -> None:
        trace = self._take(chained)
        if trace is not None and (trace.exception or trace.message or len(trace.frames) > 1):
            self.traces.append(trace)
        elif trace is None and chained:
            self.traces.append(chained[-1])


def _looks_like_class(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return last[:1].isupper() or last.endswith(("Error", "Exception"))


def parse_traces(text: str, files: Iterable[str] | PathIndex = ()) -> tuple[Trace, ...]:
    """All tracebacks of a text, in order.

    Args:
        text: any text; escape sequences and CI prefixes are dealt with.
        files: the repository's files, to map paths of other machines to.

    Returns:
        One trace per exception that ended something; what it was chained to is in ``causes``.
    """
    index = files if isinstance(files, PathIndex) else PathIndex(files)
    lines = plain_lines(text)
    native, taken = _native_traces(lines, index)
    reader = _PytestReader(lines, index)
    reader.read(taken)
    return tuple(sorted([*native, *reader.traces], key=lambda trace: trace.first_line))


def _native_traces(lines: Sequence[str], index: PathIndex) -> tuple[list[Trace], frozenset[int]]:
    traces: list[Trace] = []
    taken: set[int] = set()
    at = 0
    section = ""
    while at < len(lines):
        heading = _SECTION.match(lines[at])
        if heading:
            section = heading["name"]
        if not _HEADER.match(lines[at]):
            at += 1
            continue
        trace, end = _PythonReader(lines, at, index).read()
        taken.update(range(at, end))
        if trace is not None:
            trace = Trace(trace.frames, trace.exception, trace.message, (), section, trace.first_line)
            link = _link_before(lines, at, taken)
            if link == "chain" and traces:
                previous = traces.pop()
                causes = (*previous.causes, Trace(previous.frames, previous.exception, previous.message))
                trace = Trace(
                    trace.frames, trace.exception, trace.message, causes, section, previous.first_line
                )
                traces.append(trace)
            elif link == "member" and traces:
                whole = traces.pop()
                traces.append(
                    Trace(
                        whole.frames,
                        whole.exception,
                        whole.message,
                        (*whole.causes, trace),
                        whole.test,
                        whole.first_line,
                    )
                )
            else:
                traces.append(trace)
        at = max(end, at + 1)
    return traces, frozenset(taken)


def _link_before(lines: Sequence[str], start: int, taken: set[int]) -> str:
    """How a traceback belongs to the one before it: "chain", "member" (of a group) or ""."""
    for at in range(start - 1, max(start - 4, -1), -1):
        line = _unbarred(lines[at])
        if _CHAIN.match(line):
            return "chain"
        if _GROUP_RULE.match(lines[at]) and "+" in lines[at]:
            return "member"
        if line.strip() or at in taken:
            return ""
    return ""
