"""How far a new expression is from the old one, and how odd it looks."""

from __future__ import annotations

import ast
import io
import re
import tokenize

from ..scope import ModuleView, parameters
from .sites import Site
from .terms import Term

_ADDED, _REMOVED = 0.5, 0.6
_REPEATED = 0.5
_FORGOTTEN = 0.8
"""What a name that is used nowhere else in its function is worth."""
_NOT_READ = 0.4
_NEW_NUMBER = 0.4
"""A number that does not stand in the function yet."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
_SPECIAL = 0.7
"""Equality of numbers picks out single cases."""


class Distance:
    """Costs of texts that might replace a site; lower is likelier."""

    def __init__(self, site: Site, view: ModuleView) -> None:
        self._old = tokens(site.text)
        self._forgotten = _forgotten(site)
        self._not_read = _not_read(view)
        function = site.source.function_of(site.node)
        near = "" if function is None else site.source.segment(function)
        self._numbers = {"0", *_NUMBER.findall(near)}

    def of(self, text: str) -> float:
        """Tokens put in and taken out, and names that are repeated more than before."""
        new = tokens(text)
        common = self._common(new)
        repeated = max(0, _repeated(new) - _repeated(self._old))
        return _ADDED * (len(new) - common) + _REMOVED * (len(self._old) - common) + _REPEATED * repeated

    def kept(self, text: str) -> float:
        """Share of the old tokens that a text still has, in order."""
        return self._common(tokens(text)) / max(1, len(self._old))

    def _common(self, new: list[str]) -> int:
        from rapidfuzz.distance import LCSseq

        return int(LCSseq.similarity(self._old, new))

    def oddity(self, term: Term) -> float:
        """What speaks for or against a term besides its length."""
        odd = term.cost - term.size
        odd -= _FORGOTTEN * len(term.names & self._forgotten) + _NOT_READ * len(term.names & self._not_read)
        odd += _NEW_NUMBER * sum(number not in self._numbers for number in _NUMBER.findall(term.text))
        if " == " in term.text or " != " in term.text:
            odd += _SPECIAL
        return odd


def _repeated(words: list[str]) -> int:
    names = [word for word in words if word[0].isalpha() and word not in _WORDS]
    return len(names) - len(set(names))


_WORDS = frozenset(("and", "or", "not", "in", "not in", "is", "is not", "if", "else", "None", "len"))


def tokens(text: str) -> list[str]:
    """Words and operators; dotted names count as one."""
    try:
        found = [
            token.string
            for token in tokenize.generate_tokens(io.StringIO(f"({text})").readline)
            if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP)
        ][1:-1]
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return text.split()
    joined: list[str] = []
    for token in found:
        if joined and (token == "." or joined[-1].endswith(".")) and token != "(":
            joined[-1] += token
        elif token not in ("(", ")"):
            joined.append(token)
    return joined


def _forgotten(site: Site) -> frozenset[str]:
    """Parameters and local names that their function never uses."""
    function = site.source.function_of(site.node)
    if function is None:
        return frozenset()
    names = [each for part in function.body for each in ast.walk(part) if isinstance(each, ast.Name)]
    used = {each.id for each in names if isinstance(each.ctx, ast.Load)}
    given = {*parameters(function), *(each.id for each in names if isinstance(each.ctx, ast.Store))}
    return frozenset(given - used)


def _not_read(view: ModuleView) -> frozenset[str]:
    """Attributes that the module stores and never reads."""
    stored: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(view.source.tree):
        if isinstance(node, ast.Attribute):
            (read if isinstance(node.ctx, ast.Load) else stored).add(node.attr)
    return frozenset(stored - read)
