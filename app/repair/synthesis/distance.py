"""How far a new expression is from the old one, and how odd it looks."""

from __future__ import annotations

import ast
import io
import tokenize

from ..scope import ModuleView, parameters
from .sites import Site
from .terms import Term

_TOKEN = 0.5
_FORGOTTEN = 0.8
"""What a name that is used nowhere else in its function is worth."""
_NOT_READ = 0.4
_SPECIAL = 0.7
"""Equality of numbers picks out single cases."""


class Distance:
    """Costs of texts that might replace a site; lower is likelier."""

    def __init__(self, site: Site, view: ModuleView) -> None:
        self._old = tokens(site.text)
        self._forgotten = _forgotten(site, view)
        self._not_read = _not_read(site, view)

    def of(self, text: str) -> float:
        """Tokens taken out and put in."""
        from rapidfuzz.distance import Indel

        return _TOKEN * Indel.distance(self._old, tokens(text))

    def oddity(self, term: Term) -> float:
        """What speaks for or against a term besides its length."""
        odd = term.cost - term.size
        if any(name in self._forgotten for name in term.names):
            odd -= _FORGOTTEN
        elif any(name in self._not_read for name in term.names):
            odd -= _NOT_READ
        if " == " in term.text or " != " in term.text:
            odd += _SPECIAL
        return odd


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


def _forgotten(site: Site, view: ModuleView) -> frozenset[str]:
    """Parameters that their function never uses."""
    function = site.source.function_of(site.node)
    if function is None:
        return frozenset()
    used = {each.id for part in function.body for each in ast.walk(part) if isinstance(each, ast.Name)}
    return frozenset(name for name in parameters(function) if name not in used)


def _not_read(site: Site, view: ModuleView) -> frozenset[str]:
    """Attributes that the module stores and never reads."""
    stored: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(view.source.tree):
        if isinstance(node, ast.Attribute):
            (read if isinstance(node.ctx, ast.Load) else stored).add(node.attr)
    return frozenset(stored - read)
