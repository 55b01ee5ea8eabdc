"""A balance that one function lowers and no other raises, or the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..blocks import LEAVING
from ..edits import insert_after, insert_before
from ..facts import functions, once, walk
from ..family import Family, Proposal
from ..scope import ModuleView, parameters

_MOST_VALUES = 3


@dataclass(frozen=True)
class _Update:
    owner: str
    attribute: str
    opposite: str
    function: str
    value: str


class OppositeUpdates(Family):
    name = "opposite"
    prior = 0.5
    trust = 0.85
    fault = "left out the counterpart of an update"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        function = view.source.function_of(node)
        if not isinstance(node, ast.stmt) or function is None:
            return
        block = view.source.block_of(node)
        last = block is not None and block[-1] is node and block is function.body
        if not isinstance(node, ast.Return) and not last:
            return
        given = parameters(function)
        stored = {
            ast.unparse(each)
            for each in walk(view, function)
            if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
        }
        for update in once(view, _updates, view.source.tree):
            place = f"{update.owner}.{update.attribute}"
            if update.owner not in given or update.function == function.name or place in stored:
                continue
            for rank, value in enumerate(_values(node, update, view)):
                line = f"{place} {update.opposite}= {value}"
                edits = insert_before(view, node, [line]) if isinstance(node, LEAVING) else None
                edits = edits or insert_after(view, node, [line])
                if edits is not None:
                    yield Proposal(
                        edits, f"adds `{line}`, as {update.function} takes it back", 1.0 - 0.2 * rank
                    )


def _updates(tree: ast.Module, view: ModuleView) -> tuple[_Update, ...]:
    """Updates of attributes that are nowhere made in the other direction."""
    found: list[_Update] = []
    directions: dict[str, set[str]] = {}
    for function in functions(view):
        for node in walk(view, function):
            if not isinstance(node, ast.AugAssign) or not isinstance(node.target, ast.Attribute):
                continue
            if not isinstance(node.op, (ast.Add, ast.Sub)) or not isinstance(node.target.value, ast.Name):
                continue
            signs = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            directions.setdefault(node.target.attr, set()).add(signs[0])
            value = view.source.segment(node.value)
            found.append(_Update(node.target.value.id, node.target.attr, signs[1], function.name, value))
    return tuple(each for each in found if len(directions[each.attribute]) == 1)


def _values(node: ast.stmt, update: _Update, view: ModuleView) -> list[str]:
    """What the update may be about: what is returned, what the other one uses, the parameters."""
    known = list(view.names_at(node))
    found: list[str] = []
    if isinstance(node, ast.Return) and isinstance(node.value, (ast.Name, ast.Attribute)):
        found.append(view.source.segment(node.value))
    if update.value in known or update.value.isdigit():
        found.append(update.value)
    function = view.source.function_of(node)
    if function is not None:
        found += [each for each in parameters(function) if each not in ("self", "cls", update.owner)]
    return list(dict.fromkeys(found))[:_MOST_VALUES]
