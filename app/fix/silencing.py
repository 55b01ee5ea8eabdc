"""Patches that only keep an exception from coming: a default, a guard, a handler, an early end.

Where an issue names an exception and nothing else, such a patch passes the test made of it whatever
it puts in the exception's place, so the test proves nothing about it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

_ENDS = (ast.Return, ast.Continue, ast.Break, ast.Pass)
_DEFAULTED = frozenset({"get", "pop", "setdefault", "getattr", "next", "suppress"})
_WORDS = re.compile(
    r"\b(?:if|else|try|except|return|continue|break|pass|or|and|suppress)\b|\.get\(|\bgetattr\(|\.setdefault\("
)


def silences(before: str, after: str) -> bool:
    """Whether the new text of a Python file differs from the old in something that avoids exceptions.

    Counted are conditions, handlers, early ends, and calls that take a default; a file that cannot
    be parsed is judged by its words.
    """
    old, new = _evasions(before), _evasions(after)
    return any(new[kind] > old[kind] for kind in new)


def _evasions(text: str) -> Counter[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return Counter(_WORDS.findall(text))
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.Try, ast.ExceptHandler, *_ENDS)):
            found[type(node).__name__] += 1
        elif isinstance(node, ast.BoolOp):
            found["BoolOp"] += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found["condition of a comprehension"] += len(node.ifs)
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else ""
            name = called.id if isinstance(called, ast.Name) else name
            if name in _DEFAULTED:
                found[name] += 1 + len(node.args)
    return found
