"""Ranks places of a project from an issue's text alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....sandbox.workspace.names import is_test_path
from ...repo.foreign_paths import PathIndex
from .corpus import (
    FunctionDoc,
    SourceText,
    function_docs,
    imported_modules,
    is_source,
    read_sources,
    score_files,
    score_functions,
    source_files,
)
from .query import Query, make_query
from .reading import IssueText, read_issue_text
from .terms import words

_CLOSE_LOOK = 120
"""Files whose functions are compared; the others share too few words with the issue."""
_CLOSE_CHARS = 1_500_000
"""Of these files together: parsing is what a ranking spends its time on."""
_TRACE, _TRACE_DECAY = 1.5, 0.6
_NAMED = 0.8
_CALLED = 1.0
_MESSAGE = 1.0
_PATH, _PATH_LINE = 0.3, 1.0
_NEIGHBOUR, _CALLER = 0.35, 0.12
_TEST = 0.3
_MIN_PIECE = 5
_MAX_REASONS = 6


@dataclass(frozen=True)
class IssuePlace:
    """One function that the issue may be about; ``line`` is the line in it that has most to do with it."""

    path: str
    function: str
    line: int
    end_line: int
    score: float
    """Of the best place it is 1."""
    reasons: tuple[str, ...]


@dataclass
class _Scored:
    doc: FunctionDoc
    words: float
    boost: float = 0.0
    direct: float = 0.0
    """What the issue itself says about this very function; spreads to its neighbours."""
    line: int = 0
    line_weight: float = 0.0
    reasons: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, weight: float, reason: str, line: int = 0, *, direct: bool = True) -> None:
        if reason in self.reasons:
            return
        self.reasons[reason] = weight
        self.boost += weight
        if direct:
            self.direct = max(self.direct, weight)
        if line and weight > self.line_weight:
            self.line, self.line_weight = line, weight


def rank_issue(
    root: Path, text: str | IssueText, *, files: Sequence[str] | None = None, limit: int = 20
) -> tuple[IssuePlace, ...]:
    """The places of a project that an issue may be about, most likely first.

    Words of the issue are compared with names (split on case and underscore), docstrings, string
    literals and paths (BM25F); what it names outright counts besides: frames of tracebacks, error
    messages, called and named functions, files and lines, tests that use a function; and a share
    of that for the functions these call. Tests themselves are no places. Nothing is run.

    Args:
        root: the project's top folder.
        text: the issue, or what ``read_issue_text`` made of it.
        files: the project's files, relative with forward slashes; None: those found below ``root``.
        limit: how many places at most.
    """
    listed = source_files(root) if files is None else sorted(files)
    issue = read_issue_text(text, PathIndex(listed)) if isinstance(text, str) else text
    texts = read_sources(root, listed)
    query = make_query(issue)
    sources = [source for source in texts if is_source(source.path)]
    tests = [source for source in texts if is_test_path(source.path)]
    files_scored = score_files(sources, query.terms)
    chosen = _close_look(sources, files_scored.scores, issue, query)
    docs = [doc for source in chosen for doc in function_docs(source)]
    scores = score_functions(docs, files_scored.weights)
    top = max(scores, default=0.0)
    scored = [_Scored(doc, score / top if top else 0.0) for doc, score in zip(docs, scores, strict=True)]
    _boost_traces(scored, issue)
    _boost_paths(scored, issue)
    _boost_names(scored, query)
    _boost_messages(scored, query)
    _boost_tests(scored, tests, issue)
    _boost_neighbours(scored)
    return _places(scored, {source.path: source for source in chosen}, files_scored.weights, limit)


def _close_look(
    sources: Sequence[SourceText], scores: Mapping[str, float], issue: IssueText, query: Query
) -> list[SourceText]:
    named = {seen.path for seen in issue.paths} | {
        frame.path for trace in issue.traces for frame in trace.all_frames() if frame.in_repository
    }
    short = [re.escape(name.rpartition(".")[2]) for name in query.names]
    defines = re.compile(rf"\b(?:def|class|func|function|fn)\s+(?:{'|'.join(short)})\b") if short else None
    ordered = sorted(sources, key=lambda source: (-scores[source.path], source.path))
    chosen: list[SourceText] = []
    room = _CLOSE_CHARS
    for source in ordered[:_CLOSE_LOOK]:
        room -= len(source.text)
        # Also files that share no word: what a named function calls may lie in one.
        if room > 0 or not chosen:
            chosen.append(source)
    taken = {source.path for source in chosen}
    for source in ordered:
        if source.path in taken:
            continue
        if source.path in named or (
            defines is not None and len(chosen) < 2 * _CLOSE_LOOK and defines.search(source.text)
        ):
            chosen.append(source)
    return chosen


def _boost_traces(scored: Iterable[_Scored], issue: IssueText) -> None:
    by_path: dict[str, list[_Scored]] = {}
    for each in scored:
        by_path.setdefault(each.doc.path, []).append(each)
    for trace in issue.traces[-8:]:
        weight = _TRACE
        frames = [frame for frame in trace.all_frames() if frame.in_repository and frame.path in by_path]
        for distance, frame in enumerate(reversed(frames[-12:])):
            found = _at_line(by_path[frame.path], frame.line, frame.function)
            how = "raised here" if distance == 0 else "on the way"
            name = trace.exception or "the failure"
            if found is not None:
                inside = found.doc.line <= frame.line <= found.doc.end_line
                reason = f"{how} in the issue's traceback ({name}, line {frame.line})"
                found.add(weight, reason, frame.line if inside else 0)
            weight *= _TRACE_DECAY


def _at_line(candidates: Sequence[_Scored], line: int, function: str = "") -> _Scored | None:
    """The function around a line; by its name where the lines have moved since."""
    short = function.rpartition(".")[2]
    holding = [each for each in candidates if each.doc.line <= line <= each.doc.end_line]
    innermost = min(holding, key=lambda each: each.doc.end_line - each.doc.line, default=None)
    named = [each for each in candidates if short and each.doc.name.rpartition(".")[2] == short]
    if innermost is not None and (not named or innermost in named):
        return innermost
    return min(named, key=lambda each: abs(each.doc.line - line), default=innermost)


def _boost_paths(scored: Sequence[_Scored], issue: IssueText) -> None:
    lines: dict[str, set[int]] = {}
    for seen in issue.paths:
        if seen.path is not None:
            lines.setdefault(seen.path, set()).update({seen.line} if seen.line else ())
    for path in lines:
        held = [each for each in scored if each.doc.path == path]
        for each in held:
            each.add(_PATH, f"{path} is named in the issue", direct=False)
        for line in sorted(lines[path]):
            found = _at_line(held, line)
            if found is not None:
                found.add(_PATH_LINE, f"the issue names line {line} of {path}", line)


def _boost_names(scored: Sequence[_Scored], query: Query) -> None:
    for name, how in query.names.items():
        parts = name.split(".")
        hits = [each for each in scored if each.doc.name.split(".")[-1] == parts[-1]]
        owners = [each for each in scored if parts[-1] in each.doc.name.split(".")[:-1]]
        if len(parts) > 1:
            exact = [
                each
                for each in hits
                if parts[-2] in (*each.doc.name.split("."), *each.doc.path[:-3].split("/"))
            ]
            hits = exact or hits
        weight = (_CALLED if "called" in how else _NAMED) / max(1, len(hits)) ** 0.5
        for each in hits:
            each.add(weight, f"{parts[-1]} is {how}")
        for each in owners[:60]:
            each.add(0.3 * _NAMED / max(1, len(owners)) ** 0.5, f"{parts[-1]} is {how}", direct=False)


def _boost_messages(scored: Sequence[_Scored], query: Query) -> None:
    for message in query.messages[:20]:
        flat = " ".join(message.split()).lower()
        for each in scored:
            best, line = 0.0, 0
            for literal, at in each.doc.strings:
                share = _overlap(" ".join(literal.split()).lower(), flat)
                if share > best:
                    best, line = share, at
            if best > 0.4:
                shown = flat if len(flat) <= 60 else flat[:57] + "..."
                each.add(_MESSAGE * best, f'holds the message "{shown}"', line)


def _overlap(literal: str, message: str) -> float:
    """How much of a message one literal makes up; its gaps (``{}``, ``%s``) may hold anything."""
    pieces = [piece.strip() for piece in re.split(r"%[-#0 +]*[\d.]*[a-z]|\{[^{}]*\}", literal)]
    pieces = [piece for piece in pieces if len(piece) >= _MIN_PIECE]
    if not pieces or not all(piece in message for piece in pieces):
        return 0.0
    return min(1.0, sum(map(len, pieces)) / max(1, len(message)))


def _boost_tests(scored: Sequence[_Scored], tests: Sequence[SourceText], issue: IssueText) -> None:
    """Tests that the issue names point at the functions they call and the modules they import."""
    named: dict[str, set[str]] = {}
    for written, rest in issue.test_ids:
        name = re.split(r"::|\.", rest)[-1].partition("[")[0]
        for source in tests:
            if (
                source.path == written
                or source.path.endswith(f"/{written}")
                or written.endswith(f"/{source.path}")
            ):
                named.setdefault(source.path, set()).add(name)
    for seen in issue.paths:
        if seen.path is not None and is_test_path(seen.path):
            named.setdefault(seen.path, set())
    for source in tests:
        if source.path not in named:
            continue
        modules = {module.replace(".", "/") for module in imported_modules(source.text)}
        wanted = named[source.path]
        docs = function_docs(source)
        calls = {
            call for doc in docs if not wanted or doc.name.rpartition(".")[2] in wanted for call in doc.calls
        }
        shown = f"{source.path}::{sorted(wanted)[0]}" if wanted else source.path
        for each in scored:
            stem = each.doc.path.rpartition(".")[0].removesuffix("/__init__")
            imported = any(stem == module or stem.endswith(f"/{module}") for module in modules)
            if each.doc.name.rpartition(".")[2] in calls:
                weight = _TEST * (2 if imported else 1)
                each.add(weight, f"called by {shown}, which the issue names")
            elif imported:
                each.add(_TEST / 2, f"imported by {shown}, which the issue names", direct=False)


def _boost_neighbours(scored: Sequence[_Scored]) -> None:
    by_name: dict[str, list[_Scored]] = {}
    for each in scored:
        by_name.setdefault(each.doc.name.rpartition(".")[2], []).append(each)
    direct = [(each, each.direct) for each in scored if each.direct > 0]
    for caller, weight in direct:
        for called in caller.doc.calls:
            targets = by_name.get(called, [])
            same_file = [each for each in targets if each.doc.path == caller.doc.path]
            for each in (same_file or targets)[:3]:
                if each is not caller:
                    short = caller.doc.name.rpartition(".")[2]
                    share = _NEIGHBOUR * weight / max(1, len(same_file or targets)) ** 0.5
                    each.add(share, f"called by {short}, which the issue points at", direct=False)
    pointed = {each.doc.name.rpartition(".")[2] for each, weight in direct if weight >= _NAMED}
    for each in scored:
        for called in each.doc.calls:
            if called in pointed and called != each.doc.name.rpartition(".")[2]:
                each.add(_CALLER, f"calls {called}, which the issue points at", direct=False)
                break


def _places(
    scored: Sequence[_Scored], sources: dict[str, SourceText], weights: Mapping[str, float], limit: int
) -> tuple[IssuePlace, ...]:
    ranked = [(each.words + each.boost, each) for each in scored if each.words + each.boost > 0]
    ranked.sort(key=lambda pair: (-pair[0], pair[1].doc.path, pair[1].doc.line, pair[1].doc.name))
    top = ranked[0][0] if ranked else 1.0
    places: list[IssuePlace] = []
    for score, each in ranked[:limit]:
        doc = each.doc
        line = each.line or _best_line(sources[doc.path].text, doc, weights)
        reasons = sorted(each.reasons, key=lambda reason: -each.reasons[reason])[:_MAX_REASONS]
        shared = _shared_words(doc, weights)
        if shared and len(reasons) < _MAX_REASONS:
            reasons.append(f"shares words with the issue: {', '.join(shared)}")
        places.append(
            IssuePlace(doc.path, doc.name, line, doc.end_line, round(score / top, 4), tuple(reasons))
        )
    return tuple(places)


def _best_line(text: str, doc: FunctionDoc, weights: Mapping[str, float]) -> int:
    """The line that shares most with the issue; the first of the body among equals."""
    if doc.name == "<module>":
        return doc.first_body_line
    lines = text.split("\n")[doc.first_body_line - 1 : doc.end_line]
    best, at = 0.0, doc.first_body_line
    for number, line in enumerate(lines, start=doc.first_body_line):
        score = sum(weights.get(word, 0.0) for word in dict.fromkeys(words(line)))
        if score > best:
            best, at = score, number
    return at


def _shared_words(doc: FunctionDoc, weights: Mapping[str, float]) -> list[str]:
    held: dict[str, float] = {}
    for name in ("name", "doc", "string", "body"):
        for word in doc.fields.get(name, ()):
            if weights.get(word, 0.0) > 0:
                held[word] = weights[word]
    return sorted(held, key=lambda word: (-held[word], word))[:4]
