"""Edits that force the outcome of an expression at chosen evaluations, the first being number 0.

The edited program counts the evaluations in the interpreter's ``builtins``, which every
run of tests has anew; nothing else of the program changes. These edits are experiments:
they are never proposed as patches.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from ..source import Edit, ModuleSource

_NUMBER = (
    'next(__import__("builtins").__dict__.setdefault("_whimbrel_evaluations", '
    '__import__("itertools").count()))'
)


def always(source: ModuleSource, node: ast.expr, outcome: bool) -> tuple[Edit, ...]:
    """The expression is evaluated and counts as ``outcome``."""
    return _replaced(source, node, f"(({source.segment(node)}), {outcome})[1]")


def turned(source: ModuleSource, node: ast.expr, evaluations: Collection[int]) -> tuple[Edit, ...]:
    """The opposite truth value at some evaluations, the expression's own at all others."""
    chosen = _members(evaluations)
    return _replaced(source, node, f"(({_NUMBER} in {chosen}) is not bool({source.segment(node)}))")


def given(
    source: ModuleSource, node: ast.expr, value: str, evaluations: Collection[int], *, raises: bool
) -> tuple[Edit, ...]:
    """Another value at some evaluations.

    ``raises``: the expression raises there, so it is not evaluated; otherwise it is, for
    what else it may do.
    """
    old, chosen = source.segment(node), _members(evaluations)
    if raises:
        return _replaced(source, node, f"(({value}) if {_NUMBER} in {chosen} else ({old}))")
    return _replaced(source, node, f"(({old}), ({value}))[{_NUMBER} in {chosen}]")


def _members(evaluations: Collection[int]) -> str:
    return "(" + "".join(f"{each}, " for each in sorted(evaluations)) + ")"


def _replaced(source: ModuleSource, node: ast.expr, text: str) -> tuple[Edit, ...]:
    start, end = source.span(node)
    return (Edit(start, end, text),)
