"""An issue as data: code spans, sessions, tracebacks, error messages, paths, names, claims."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...repo.foreign_paths import PathIndex
from ...repo.stacktrace import Trace, parse_traces
from .blocks import Block, Kind, Split, split_issue
from .claims import Claim, read_claims

_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(?P<code>.+?)(?<!`)\1(?!`)")
_PATH = re.compile(
    r"(?<![\w@:/.-])(?P<path>(?:[A-Za-z]:)?[\w.~/\\-]*[\w-]\.[A-Za-z]\w{0,4})(?::(?P<line>\d+))?(?!\w|\()"
)
_LINE_OF = re.compile(r"\bline (\d+)\b")
_ERROR = re.compile(
    r"\b(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration))\b"
    r"(?:\(?:\s+(?P<message>[^\n`]+)|\((?P<called>[^)\n]*)\))?"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE_LIKE = re.compile(r"_|[a-z][A-Z]|\d")
_TEST_ID = re.compile(r"(?<![\w/])(?P<path>[\w./-]*\.py)::(?P<rest>[\w.:]+)")
_MAX = 400


@dataclass(frozen=True)
class ErrorSeen:
    """An exception that the issue names; the message may be empty."""

    exception: str
    message: str


@dataclass(frozen=True)
class PathSeen:
    """A file that the issue names, as written, and the repository's file where it is one."""

    text: str
    line: int | None
    path: str | None


@dataclass(frozen=True)
class IssueText:
    """Everything an issue says that a program can use. All lists are bounded and in the issue's order."""

    title: str
    split: Split
    spans: tuple[str, ...]
    traces: tuple[Trace, ...]
    errors: tuple[ErrorSeen, ...]
    paths: tuple[PathSeen, ...]
    test_ids: tuple[tuple[str, str], ...]
    """(file as written, names behind it) of pytest ids."""
    identifiers: tuple[str, ...]
    """Names in prose that look like code: ``snake_case``, ``CamelCase``, ``name()``."""
    claims: tuple[Claim, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.split.blocks

    def of_kind(self, *kinds: Kind) -> tuple[Block, ...]:
        return tuple(block for block in self.split.blocks if block.kind in kinds)


def read_issue_text(text: str, files: Iterable[str] | PathIndex = ()) -> IssueText:
    """Reads an issue; never fails, whatever the text.

    Args:
        text: Markdown, RST, a CI log, plain words in any language; line ends of any kind.
        files: the repository's files, to map printed paths to.
    """
    index = files if isinstance(files, PathIndex) else PathIndex(files)
    split = split_issue(text)
    prose = "\n".join(split.prose)
    everything = "\n".join(split.lines)
    title = _title(split)
    spans = tuple(dict.fromkeys(match["code"].strip() for match in _SPAN.finditer(prose)))[:_MAX]
    return IssueText(
        title=title[:300],
        split=split,
        spans=spans,
        traces=parse_traces(everything, index)[:_MAX],
        errors=_errors(everything),
        paths=_paths(everything, index),
        test_ids=tuple(
            dict.fromkeys((match["path"], match["rest"]) for match in _TEST_ID.finditer(everything))
        )[:_MAX],
        identifiers=_identifiers(prose),
        claims=read_claims(split.prose),
    )


_TEMPLATE = re.compile(
    r"^(?:steps\b.*|describe\b.*|description|(?:a )?minimal\b.*|summary|problem|bug(?: report)?|environment"
    r"|expected\b.*|actual\b.*|what happened\W*|to reproduce|reproduction)\W*$",
    re.IGNORECASE,
)


def _title(split: Split) -> str:
    """The first line, where it is a line about the problem: no code, no heading of a template."""
    first = next((number for number, line in enumerate(split.lines) if line.strip()), 0)
    line = split.prose[first].strip().lstrip("# ").strip() if split.prose else ""
    if _TEMPLATE.match(line) or len(line.split()) < 3:
        return ""
    return line


def _errors(text: str) -> tuple[ErrorSeen, ...]:
    found: dict[ErrorSeen, None] = {}
    for match in _ERROR.finditer(text):
        message = (match["message"] or match["called"] or "").strip()
        found[ErrorSeen(match["name"], message[:500])] = None
        if len(found) >= _MAX:
            break
    return tuple(found)


def _paths(text: str, index: PathIndex) -> tuple[PathSeen, ...]:
    found: dict[PathSeen, None] = {}
    for match in _PATH.finditer(text):
        written = match["path"]
        if len(found) >= _MAX:
            break
        path = index.find(written)
        if path is None and not re.search(
            r"[/\\]|\.(?:py|pyx|pyi|js|ts|go|rs|java|rb|php|c|cc|cpp|h)$", written
        ):
            continue
        line = match["line"]
        if line is None:
            behind = _LINE_OF.search(text[match.end() : match.end() + 24])
            line = behind[1] if behind else None
        found[PathSeen(written, int(line[:9]) if line else None, path)] = None
    return tuple(found)


def _identifiers(prose: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(prose):
        word = match[0]
        called = prose[match.end() : match.end() + 1] == "("
        dotted = (
            prose[match.end() : match.end() + 1] == "."
            and prose[match.end() + 1 : match.end() + 2].isidentifier()
        )
        if called or dotted or _CODE_LIKE.search(word.strip("_")) or word.startswith("_"):
            found[word] = None
            if len(found) >= _MAX:
                break
    return tuple(found)
