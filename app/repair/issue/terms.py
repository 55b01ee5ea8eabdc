"""Words of code and of people, made comparable: split on case and underscore, lower case, plurals cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_WORD = re.compile(r"[^\W\d_][\w]*|\d{2,}")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W\d_]+|\d+")
_STOP_WORDS = """
a about above after again all also always am an and any are as at be because been before being both bug
but by call called calling can cannot case code could did do does doing done each else error even every
example expect expected expects fail failed failing fails false file few fix for found from function get
gets getting give given gives got had has have having he here how however i if import in instead into is
issue it its just know like line look make me method more most my need new no none not now of on one only
or other our out output problem please print prints python raise raised raises recent result return
returned returning returns run running same see seem seems self should show since so some still such test
tests than that the their them then there these they thing think this those to too traceback true try
trying up us use used user using value values version very want was way we were what when where which
while who why will with without work working works would wrong you your der die das und ist nicht ein
eine le les des est pas que el los las una
"""
_STOP = frozenset(_STOP_WORDS.split())
_MAX_PARTS = 12


@lru_cache(maxsize=1 << 17)
def split_name(name: str) -> tuple[str, ...]:
    """``parseHTTPDate_v2`` -> parse, http, date: lower case, without plural endings, at least two letters."""
    parts = (_stem(part.lower()) for part in _PARTS.findall(name)[:_MAX_PARTS])
    return tuple(part for part in parts if len(part) > 1)


def words(text: str) -> Iterator[str]:
    """Comparable words of a text, stop words included."""
    for match in _WORD.finditer(text):
        yield from split_name(match[0])


def telling_words(text: str) -> Iterator[str]:
    """Comparable words of a text that say something about what it is about."""
    return (word for word in words(text) if word not in _STOP)


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
