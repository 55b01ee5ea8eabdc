"""What an issue asks for, as weighted words and as things named outright."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from .blocks import Kind, parse_python
from .reading import IssueText
from .terms import split_name, telling_words

_TITLE, _PROSE, _SPAN, _SNIPPET, _MESSAGE, _NAME = 2.0, 1.0, 3.0, 1.5, 2.0, 2.5
_MAX_TERMS = 80
_MAX_PROSE = 20_000
_NAMES = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MIN_MESSAGE = 6


@dataclass
class Query:
    """The question that a ranking answers."""

    terms: dict[str, float] = field(default_factory=dict[str, float])
    """Comparable word -> weight, heaviest first, bounded."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Names in code (``total``, ``Cart.total``) -> how the issue uses them."""
    messages: list[str] = field(default_factory=list[str])
    """Error messages, to be found in string literals."""


def make_query(issue: IssueText) -> Query:
    query = Query()
    weights: dict[str, float] = {}

    def add(text: str, weight: float) -> None:
        for word in telling_words(text):
            weights[word] = max(weights.get(word, 0.0), weight) + 0.1

    add(issue.title, _TITLE)
    add("\n".join(issue.split.prose)[:_MAX_PROSE], _PROSE)
    for name in issue.identifiers:
        add(name, _NAME)
        query.names.setdefault(name, "named in the issue")
    for span in issue.spans:
        add(span, _SPAN)
        for name in _NAMES.findall(span)[:20]:
            query.names.setdefault(name, "named in the issue")
    for block in issue.of_kind(Kind.PYTHON, Kind.SESSION):
        code = "\n".join(_code_of(block.text)) if block.kind is Kind.SESSION else block.text
        for name, how in _used_names(code):
            query.names[name] = how
            add(name, _SNIPPET)
    for claim in issue.claims:
        for name, how in _used_names(claim.subject) if claim.subject else ():
            query.names[name] = how
            add(name, _SPAN)
    for seen in issue.errors:
        add(seen.message, _MESSAGE)
        query.names.setdefault(seen.exception.rpartition(".")[2], "the exception the issue names")
        if len(seen.message) >= _MIN_MESSAGE and seen.message not in query.messages:
            query.messages.append(seen.message)
    for trace in issue.traces:
        if len(trace.message) >= _MIN_MESSAGE and trace.message not in query.messages:
            query.messages.append(trace.message.split("\n")[0])
        for frame in trace.frames:
            for part in split_name(frame.function):
                weights[part] = max(weights.get(part, 0.0), _SNIPPET)
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:_MAX_TERMS]
    query.terms = dict(ordered)
    return query


def _code_of(session: str) -> list[str]:
    found: list[str] = []
    for line in session.split("\n"):
        match = re.match(r"^\s*(?:>>>|\.\.\.|In \[\d*\]:) ?(?P<code>.*)$", line)
        if match:
            found.append(match["code"])
    return found


def _used_names(code: str) -> list[tuple[str, str]]:
    """Called, imported and read names of a snippet, with the use; words of a text that is no Python."""
    tree = parse_python(code)
    if tree is None:
        return [(name, "named in the issue's snippet") for name in _NAMES.findall(code)[:60]]
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found.setdefault(alias.name.rpartition(".")[2], "imported by the issue's snippet")
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
            if name:
                found[name.rpartition(".")[2]] = "called by the issue's snippet"
        elif isinstance(node, ast.Attribute):
            found.setdefault(node.attr, "used by the issue's snippet")
    return list(found.items())[:200]
