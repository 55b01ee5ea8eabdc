"""Splits an issue into prose and the things pasted into it: code, sessions, tracebacks, output, files."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ...repo.stacktrace import plain_lines

MAX_CHARS = 200_000
"""Longer texts are read at their head and tail: the first words name the problem, logs end with it."""
_HEAD_SHARE = 0.7
_MAX_LINE = 4000
_MAX_LEAD_LINES = 4
_MAX_PARSES = 3000
"""Of pasted lines without a mark; a log of thousands of lines is hardly the snippet."""


class Kind(Enum):
    PYTHON = "python"
    SESSION = "session"
    """Interactive: ``>>>`` or ``In [1]:`` prompts and what came back."""
    TRACEBACK = "traceback"
    OUTPUT = "output"
    """Anything else: program output, shell commands, data."""


@dataclass(frozen=True)
class Block:
    """One pasted piece, without fence, quote marks and common indentation."""

    kind: Kind
    text: str
    language: str
    """What the fence says, lower case, or empty."""
    line: int
    """1-based line of the issue on which the text begins."""
    lead: str = ""
    """The prose before it: back to the piece before, at most a few lines, headings included."""
    trail: str = ""
    """The first paragraph behind it, when no other piece comes first."""
    title: str = ""
    """A file name that the fence carries (``title="data.csv"``), or empty."""


@dataclass(frozen=True)
class Split:
    """A whole issue: prose lines (pieces blanked, so line numbers hold) and pieces in order."""

    prose: tuple[str, ...]
    blocks: tuple[Block, ...]
    lines: tuple[str, ...]
    shortened: bool


_FENCE = re.compile(r"^(?P<before>[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_PROMPT = re.compile(r"^\s*(?:>>>(?: |$)|In \[\d*\]: ?)")
_TRACEBACK = re.compile(r"^[\s|+>]*(?:Exception Group )?Traceback \(most recent call last\):\s*$")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff\x00]")
_TITLE = re.compile(r"(?:title|filename|file|name)\s*=\s*[\"']?([\w./\\-]+\.\w+)")
_PYTHON_NAMES = frozenset(
    {"python", "py", "python3", "py3", "python2", "pycon", "ipython", "ipython3", "pyi"}
)
_CODE_START = re.compile(
    r"^(?:from\s+[\w.]+\s+import\b|import\s+[\w.]+|[A-Za-z_][\w.]*(?:\[[^\]]*\])?\s*=[^=]"
    r"|(?:with|for|assert|def|class|async|try|while|if)\b.*|@\w+|[A-Za-z_][\w.]*\()"
)
_TELLING = (ast.Call, ast.Import, ast.ImportFrom, ast.Assert, ast.FunctionDef, ast.ClassDef, ast.Assign)


def split_issue(text: str) -> Split:
    """Reads any text: Markdown, RST, a pasted log, plain words; never fails."""
    shortened = len(text) > MAX_CHARS
    if shortened:
        head = int(MAX_CHARS * _HEAD_SHARE)
        text = f"{text[:head]}\n{text[head - MAX_CHARS :]}"
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    text = _INVISIBLE.sub("", text)
    # Comments of issue templates are instructions to the author; their line ends keep the numbering.
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines = [line[:_MAX_LINE] for line in plain_lines(text)]
    splitter = _Splitter(lines)
    splitter.run()
    return Split(tuple(splitter.prose), _with_surroundings(splitter), tuple(lines), shortened)


class _Splitter:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.prose = list(lines)
        self.found: list[tuple[int, int, Block]] = []
        """(first line, line behind the last, the piece); lines from 0."""
        self._parses_left = _MAX_PARSES

    def run(self) -> None:
        at = 0
        while at < len(self.lines):
            end = self._fenced(at) or self._session(at) or self._traceback(at) or self._indented(at)
            end = end or self._bare_code(at)
            at = end or at + 1

    def _take(self, first: int, end: int, text: str, language: str = "", title: str = "") -> int:
        for line in range(first, end):
            self.prose[line] = ""
        for offset, kind, piece in _pieces(text, language):
            block = Block(kind, piece, language, first + offset + 1, title=title)
            self.found.append((first, end, block))
        return end

    def _fenced(self, at: int) -> int | None:
        match = _FENCE.match(self.lines[at])
        if not match:
            return None
        quote = match["before"].strip().startswith(">")
        closing = re.compile(rf"^[\s>]*{match['fence'][0]}{{{len(match['fence'])},}}\s*$")
        end = at + 1
        while end < len(self.lines) and not closing.match(self.lines[end]):
            end += 1
        body = self.lines[at + 1 : end]
        if quote:
            body = [re.sub(r"^\s*> ?", "", line) for line in body]
        info = match["info"].strip()
        word = re.match(r"[{.]*([\w+#-]+)", info)
        title = _TITLE.search(info)
        text = textwrap.dedent("\n".join(body))
        last = min(end + 1, len(self.lines))
        self._take(at + 1, end, text, word[1].lower() if word else "", title[1] if title else "")
        self.prose[at] = ""
        if end < len(self.lines):
            self.prose[end] = ""
        return last

    def _session(self, at: int) -> int | None:
        if not _PROMPT.match(self.lines[at]):
            return None
        end = at
        while end < len(self.lines):
            line = self.lines[end]
            if not line.strip():
                following = next((k for k in range(end, len(self.lines)) if self.lines[k].strip()), None)
                if following is None or not _PROMPT.match(self.lines[following]):
                    break
                end = following
            elif _FENCE.match(line):
                break
            end += 1
        return self._take(at, end, textwrap.dedent("\n".join(self.lines[at:end])), "pycon")

    def _traceback(self, at: int) -> int | None:
        if not _TRACEBACK.match(self.lines[at]):
            return None
        end = at + 1
        while end < len(self.lines) and self.lines[end].strip() and not _FENCE.match(self.lines[end]):
            end += 1
        return self._take(at, end, textwrap.dedent("\n".join(self.lines[at:end])))

    def _indented(self, at: int) -> int | None:
        """Markdown's and RST's code by indentation, only where it is code or something pasted."""
        if not re.match(r"^(?: {4}|\t)\s*\S", self.lines[at]) or (at and self.prose[at - 1].strip()):
            return None
        end = last = at
        while end < len(self.lines) and (
            not self.lines[end].strip() or re.match(r"^(?: {2}|\t)", self.lines[end])
        ):
            last = end if self.lines[end].strip() else last
            end += 1
        text = textwrap.dedent("\n".join(self.lines[at : last + 1]))
        return self._take(at, last + 1, text)

    def _bare_code(self, at: int) -> int | None:
        """Code pasted without any mark: the longest run of lines from here that parses and does something."""
        if not _CODE_START.match(self.lines[at]):
            return None
        paragraphs_end = at
        while paragraphs_end < min(len(self.lines), at + 60) and not _FENCE.match(self.lines[paragraphs_end]):
            paragraphs_end += 1
        for end in range(paragraphs_end, at, -1):
            if not self.lines[end - 1].strip():
                continue
            self._parses_left -= 1
            if self._parses_left < 0:
                return None
            text = "\n".join(self.lines[at:end])
            if looks_like_code(text):
                return self._take(at, end, text, "python")
        return None


def parse_python(text: str) -> ast.Module | None:
    """The tree, or None when it is no Python."""
    try:
        with warnings.catch_warnings():
            # A dubious escape in somebody's snippet is no concern of ours.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def looks_like_code(text: str) -> bool:
    """Whether a text is Python that does something (a bare word or literal parses, too)."""
    tree = parse_python(text)
    return tree is not None and any(isinstance(node, _TELLING) for node in ast.walk(tree))


def _pieces(text: str, language: str) -> list[tuple[int, Kind, str]]:
    """(line offset, kind, text) of what one pasted piece holds: code may be followed by its traceback."""
    if not text.strip():
        return []
    lines = text.split("\n")
    if any(_PROMPT.match(line) for line in lines):
        return [(0, Kind.SESSION, text)]
    for number, line in enumerate(lines):
        if _TRACEBACK.match(line):
            code = "\n".join(lines[:number])
            before = [(0, Kind.PYTHON, code)] if looks_like_code(code) else []
            return [*before, (number, Kind.TRACEBACK, "\n".join(lines[number:]))]
    if language in _PYTHON_NAMES:
        return [(0, Kind.PYTHON, text)]
    if not language and looks_like_code(text):
        return [(0, Kind.PYTHON, text)]
    return [(0, Kind.OUTPUT, text)]


def _with_surroundings(splitter: _Splitter) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for number, (first, end, block) in enumerate(splitter.found):
        before = splitter.found[number - 1][1] if number else 0
        behind = splitter.found[number + 1][0] if number + 1 < len(splitter.found) else len(splitter.lines)
        above = [line for line in splitter.prose[min(before, first) : first] if line.strip()]
        below: list[str] = []
        for line in splitter.prose[end : max(end, behind)]:
            if not line.strip() and below:
                break
            if line.strip():
                below.append(line)
        blocks.append(
            replace(block, lead="\n".join(above[-_MAX_LEAD_LINES:]), trail="\n".join(below[:_MAX_LEAD_LINES]))
        )
    return tuple(blocks)
