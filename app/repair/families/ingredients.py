"""Statements of other functions of the file, in the names known here, where their context is alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..adapt import adapter
from ..blocks import SIMPLE, first_real, is_docstring, names_in, own_nodes
from ..edits import insert_after, insert_before
from ..facts import functions, once, own_returns, walk
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Function

_MOST_PER_PLACE = 6
_MOST_PER_FUNCTION = 40
_MOST_FROM_FILE = 90


@dataclass(frozen=True)
class _Statement:
    """One simple statement inside a function, with its neighbours' shapes ("" at the ends of its block)."""

    node: ast.stmt
    function: Function
    owner: ast.ClassDef | None
    names: frozenset[str]
    attributes: frozenset[str]
    before: str
    after: str
    depth: int


@dataclass(frozen=True)
class _Offer:
    """An ingredient in the names of one function."""

    text: str
    statement: _Statement
    names: frozenset[str]
    weight: float


class Ingredients(Family):
    name = "ingredient"
    prior = 0.68
    trust = 0.75
    fault = "left out a step that its siblings make"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or isinstance(node, ast.ClassDef):
            return
        function = view.source.function_of(node)
        block = view.source.block_of(node)
        if function is None or block is None or is_docstring(node):
            return
        offers = once(view, _stock, view.source.tree).offers(function)
        if not offers:
            return
        position = block.index(node)
        before = _shape(block[position - 1]) if position and not is_docstring(block[position - 1]) else ""
        yield from self._at(node, before, _shape(node), offers, view, last=False)
        if block[-1] is node and not isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            yield from self._at(node, _shape(node), "", offers, view, last=True)

    def _at(
        self, node: ast.stmt, before: str, after: str, offers: list[_Offer], view: ModuleView, *, last: bool
    ) -> Iterator[Proposal]:
        known = frozenset(view.names_at(node))
        function = view.source.function_of(node)
        local = frozenset(view.local_names(function)) if function is not None else frozenset[str]()
        nearby = names_in(node)
        early = function is not None and any(
            each not in function.body for each in own_returns(function, view)
        )
        ranked: list[tuple[float, int, _Offer]] = []
        for rank, offer in enumerate(offers):
            needed = offer.names & local
            if not needed <= known:
                continue
            fits = 0.45 * offer.weight
            fits += 0.28 * _alike(before, offer.statement.before) + 0.28 * _alike(
                after, offer.statement.after
            )
            fits += 0.08 if nearby & needed else 0.0
            if function is not None and _forgets(offer.statement.node):
                # Done first, it holds on every way through the function.
                fits += 0.25 if node is first_real(function) and not last else -0.1 * early
            ranked.append((fits, rank, offer))
        ranked.sort(key=lambda each: (-each[0], each[1]))
        for fits, _, offer in ranked[:_MOST_PER_PLACE]:
            insert = insert_after if last else insert_before
            edits = insert(view, node, offer.text.splitlines())
            if edits is not None:
                origin = offer.statement.function.name
                yield Proposal(edits, f"adds `{offer.text}` as {origin} does", min(1.0, fits))


class _Stock:
    """The simple statements of a file, and what of them fits each function."""

    def __init__(self, view: ModuleView) -> None:
        self._view = view
        self._offers: dict[Function, list[_Offer]] = {}
        self._statements = [each for function in functions(view) for each in self._of(function)]

    def _of(self, function: Function) -> Iterator[_Statement]:
        view = self._view
        owner = view.source.parents.get(function)
        for block, depth in _blocks(function, 0):
            for position, node in enumerate(block):
                if not isinstance(node, SIMPLE) or is_docstring(node):
                    continue
                # An annotation declares; that is done once.
                if isinstance(node, (ast.Return, ast.AnnAssign)):
                    continue
                if (node.end_lineno or node.lineno) != node.lineno or not view.source.alone_on_lines(node):
                    continue
                before = block[position - 1] if position and not is_docstring(block[position - 1]) else None
                after = block[position + 1] if position + 1 < len(block) else None
                yield _Statement(
                    node,
                    function,
                    owner if isinstance(owner, ast.ClassDef) else None,
                    names_in(node),
                    frozenset(each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)),
                    _shape(before),
                    _shape(after),
                    depth,
                )

    def offers(self, function: Function) -> list[_Offer]:
        """What could be added to a function, likeliest first whatever the place."""
        if function not in self._offers:
            self._offers[function] = self._fitting(function)
        return self._offers[function]

    def _fitting(self, function: Function) -> list[_Offer]:
        view = self._view
        parent = view.source.parents.get(function)
        owner = parent if isinstance(parent, ast.ClassDef) else None
        known = frozenset(view.local_names(function))
        own = {view.source.segment(each) for each in walk(view, function) if isinstance(each, SIMPLE)}
        members = set(view.members(owner)) if owner is not None else set[str]()
        near = [each for each in self._statements if each.function is not function]
        near.sort(key=lambda each: (each.owner is not owner, abs(each.node.lineno - function.lineno)))
        found: dict[str, _Offer] = {}
        for statement in near[:_MOST_FROM_FILE]:
            foreign = statement.owner is not owner and not statement.attributes <= members
            if "self" in statement.names and ("self" not in known or foreign):
                continue
            fits = adapter(view).mapping(statement.names, statement.function, function, known)
            if fits is None:
                fits = self._bound_here(statement, function, known)
            if fits is None:
                continue
            mapping, weight = fits
            text = adapter(view).written(statement.node, mapping)
            if text is None or text in own or "\n" in text:
                continue
            text = _own_class_name(text, statement.owner, owner)
            if statement.owner is owner:
                weight = min(1.0, weight + 0.1)
            else:
                weight *= 0.9
            if isinstance(statement.node, ast.Raise):
                weight *= 0.6
            names = frozenset(mapping.get(name, name) for name in _needed(statement.node))
            if text not in found:
                found[text] = _Offer(text, statement, names, weight)
        return sorted(found.values(), key=lambda each: -each.weight)[:_MOST_PER_FUNCTION]

    def _bound_here(
        self, statement: _Statement, function: Function, known: frozenset[str]
    ) -> tuple[dict[str, str], float] | None:
        """A statement that itself binds the name that is not known here."""
        bound = frozenset(
            each.id
            for each in ast.walk(statement.node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )
        if not bound or not isinstance(statement.node, ast.Assign):
            return None
        fits = adapter(self._view).mapping(statement.names - bound, statement.function, function, known)
        return None if fits is None else (fits[0], 0.8 * fits[1])


def _forgets(node: ast.stmt) -> bool:
    """``self.kept = None``: what was kept counts no more."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
        return False
    return isinstance(node.value, ast.Constant) and node.value.value in (None, False)


def _needed(node: ast.stmt) -> frozenset[str]:
    return frozenset(
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    )


def _blocks(node: ast.AST, depth: int) -> Iterator[tuple[list[ast.stmt], int]]:
    """Blocks of statements below a node without those of nested functions and classes."""
    for field in ("body", "orelse", "finalbody", "handlers"):
        value = getattr(node, field, None)
        if not isinstance(value, list):
            continue
        statements = [each for each in value if isinstance(each, ast.stmt)]  # pyright: ignore[reportUnknownVariableType]
        if statements:
            yield statements, depth
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(each, (ast.stmt, ast.ExceptHandler)) and not isinstance(
                each, (*FUNCTIONS, ast.ClassDef)
            ):
                yield from _blocks(each, depth + 1)


def _shape(statement: ast.stmt | None) -> str:
    """The words of a statement's own line, to compare contexts by."""
    if statement is None:
        return ""
    kind = type(statement).__name__
    words = [kind]
    for node in own_nodes(statement):
        if isinstance(node, ast.Attribute):
            words.append(node.attr)
        elif isinstance(node, ast.Name):
            words.append(node.id)
    return " ".join(words)


def _alike(one: str, two: str) -> float:
    """0 to 1: shared words of two shapes; both empty (the same end of a block) counts much."""
    if not one or not two:
        return 0.6 if one == two else 0.0
    if one == two:
        return 1.0
    ours, theirs = frozenset(one.split()), frozenset(two.split())
    return len(ours & theirs) / len(ours | theirs)


def _own_class_name(text: str, there: ast.ClassDef | None, here: ast.ClassDef | None) -> str:
    """``super().__init__("square")`` of a class Square says "circle" in Circle."""
    if there is None or here is None or there is here:
        return text
    for old, new in ((there.name, here.name), (there.name.lower(), here.name.lower())):
        for quote in ('"', "'"):
            text = text.replace(f"{quote}{old}{quote}", f"{quote}{new}{quote}")
    return text


def _stock(tree: ast.Module, view: ModuleView) -> _Stock:
    return _Stock(view)
