"""Synthesised expressions as candidates: text in its place, description, harm, score."""

from __future__ import annotations

import ast

from ..candidates import Candidate
from ..family import Harm
from ..source import Edit
from .goals import AND_CLAUSE, OR_CLAUSE, WHOLE, Found
from .sites import Site, needed_level

FAMILY = "synthesis"
_PRIOR = 0.5
_COST = 0.12
_MUCH_KEPT = 0.5
_UNCONFIRMED = 0.7
"""For expressions that no passing test says anything about."""
_HARM_COST = {Harm.PRECISE: 1.0, Harm.LOOSENS: 0.95, Harm.REMOVES: 0.8}


def candidate_for(site: Site, found: Found, *, unconfirmed: bool) -> Candidate:
    """The candidate that puts a new expression in the place of a site's old one."""
    source = site.source
    start, end = source.span(site.node)
    text = found.text if found.level >= needed_level(source, site.node) else f"({found.text})"
    harm = _harm(site, found, unconfirmed)
    weight = 1.0 / (1.0 + _COST * max(0.0, found.cost))
    if unconfirmed:
        weight *= _UNCONFIRMED
    return Candidate(
        path=site.path,
        line=source.line_of(start),
        end_line=source.line_of(max(start, end - 1)),
        edits=(Edit(start, end, text),),
        family=FAMILY,
        fault=_fault(site),
        description=_description(site, found),
        harm=harm,
        score=site.suspicion * _PRIOR * weight * _HARM_COST[harm],
    )


def _harm(site: Site, found: Found, unconfirmed: bool) -> Harm:
    """A bare constant takes the computation away; a clause, or what nothing confirms, may hide an error."""
    if found.form == WHOLE and not isinstance(site.node, ast.Constant) and _is_constant(found.text):
        return Harm.REMOVES
    if found.form != WHOLE or unconfirmed or found.deviates or found.kept < _MUCH_KEPT:
        return Harm.LOOSENS
    return Harm.PRECISE


def _is_constant(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return False
    return True


def _description(site: Site, found: Found) -> str:
    old = " ".join(site.text.split())
    if found.form == AND_CLAUSE:
        return f"also asks `{found.clause}`"
    if found.form == OR_CLAUSE:
        return f"also accepts `{found.clause}`"
    return f"replaces `{old}` by `{found.text}`"


def _fault(site: Site) -> str:
    if site.role in ("condition", "clause"):
        return "tested the wrong condition"
    return f"computed the wrong {site.role}"
