"""What a project's code knows: expressions written elsewhere, to be used again where a fault is.

Programs repeat themselves, so the right expression often stands somewhere else already: in the
same function, another file of the package, or a line that a past commit took out. Knowledge keeps
such expressions by what they mention, so that those resembling a suspicious one are found without
looking at all of them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .source import FUNCTIONS, ModuleSource, UnreadableSource

_KINDS: tuple[tuple[str, tuple[type[ast.expr], ...]], ...] = (
    ("test", (ast.Compare, ast.BoolOp)),
    ("call", (ast.Call,)),
    ("arithmetic", (ast.BinOp, ast.UnaryOp)),
    ("subscript", (ast.Subscript,)),
    ("comprehension", (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)),
    ("conditional", (ast.IfExp,)),
    ("lambda", (ast.Lambda,)),
)
_LONGEST = 90
_MOST_EXPRESSIONS = 40_000
_MOST_HOLDERS = 120
"""An identifier that more expressions mention says too little to look all of them up."""


@dataclass(frozen=True)
class Expression:
    """One expression of the project, as written.

    Attributes:
        text: one line of source.
        kind: syntactic role, as ``kind_of`` names it.
        names: free variables (``ast.Name``), in order of first use.
        mentions: names, attributes, keywords and short strings in it.
        path: where it stands; empty for past commits.
        function: bare name of the function around it, or empty.
        dump: the syntax tree, to compare by.
    """

    text: str
    kind: str
    names: tuple[str, ...]
    mentions: frozenset[str]
    path: str
    function: str
    dump: str


class Knowledge:
    """Expressions of a project, found by what they mention. Answers are in a stable order."""

    def __init__(self, expressions: Iterable[Expression] = ()) -> None:
        self._all: list[Expression] = []
        self._known: set[tuple[str, str, str]] = set()
        self._holders: dict[str, list[int]] = {}
        for each in expressions:
            self._add(each)

    def __len__(self) -> int:
        return len(self._all)

    def _add(self, expression: Expression) -> None:
        key = (expression.dump, expression.path, expression.function)
        if key in self._known or len(self._all) >= _MOST_EXPRESSIONS:
            return
        self._known.add(key)
        for name in expression.mentions:
            self._holders.setdefault(name, []).append(len(self._all))
        self._all.append(expression)

    def learn(self, source: ModuleSource) -> None:
        """Adds the expressions of one file."""
        for each in expressions_of(source):
            self._add(each)

    def learn_history(self, lines: Iterable[str]) -> None:
        """Adds expressions from single lines of code that past commits took out."""
        for line in lines:
            source = _read(line.strip())
            if source is not None:
                self.learn(source)

    def alike(self, kind: str, mentions: frozenset[str], most: int = 24) -> list[tuple[float, Expression]]:
        """Expressions of a kind that share identifiers with ``mentions``: (0 to 1] and which, best first.

        Rare identifiers in common count more than ones that are everywhere.
        """
        rarity = {name: self._rarity(name) for name in mentions if name in self._holders}
        whole = sum(rarity.values()) + sum(1.0 for name in mentions if name not in rarity)
        if not rarity:
            return []
        shared: dict[int, float] = {}
        for name in sorted(rarity):
            holders = self._holders[name]
            if len(holders) <= _MOST_HOLDERS:
                for index in holders:
                    shared[index] = shared.get(index, 0.0) + rarity[name]
        scored: list[tuple[float, int]] = []
        for index, common in shared.items():
            expression = self._all[index]
            if expression.kind == kind:
                others = sum(self._rarity(name) for name in expression.mentions if name not in rarity)
                scored.append((common / (whole + others), index))
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        return [(round(score, 6), self._all[index]) for score, index in scored[:most]]

    def _rarity(self, name: str) -> float:
        return 1.0 / (1.0 + math.log1p(len(self._holders.get(name, ()))))


def kind_of(node: ast.expr) -> str | None:
    """The role two expressions must share to stand in for each other; None for names and literals."""
    for kind, types in _KINDS:
        if isinstance(node, types):
            return kind
    return None


def mentions_of(node: ast.AST) -> frozenset[str]:
    """Identifiers and short strings in an expression."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
        elif isinstance(each, ast.keyword) and each.arg:
            found.add(each.arg)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and 0 < len(each.value) <= 24:
            found.add(each.value)
    return frozenset(found)


def free_names(node: ast.AST) -> tuple[str, ...]:
    """Variables an expression needs from outside (not those its own comprehensions and lambdas bind)."""
    bound: set[str] = set()
    used: dict[str, None] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            if isinstance(each.ctx, ast.Load):
                used[each.id] = None
            else:
                bound.add(each.id)
        elif isinstance(each, ast.arg):
            bound.add(each.arg)
    return tuple(name for name in used if name not in bound)


def expressions_of(source: ModuleSource) -> Iterator[Expression]:
    """The compound expressions of a file that fit on one line, outer before inner."""
    stack: list[tuple[ast.AST, str]] = [(source.tree, "")]
    while stack:
        node, function = stack.pop()
        if isinstance(node, FUNCTIONS):
            function = node.name
        if isinstance(node, ast.JoinedStr):
            continue  # positions inside are not to be trusted everywhere
        stack += [(child, function) for child in reversed(list(ast.iter_child_nodes(node)))]
        kind = kind_of(node) if isinstance(node, ast.expr) else None
        if kind is None or node.end_lineno != node.lineno:  # type: ignore[attr-defined]
            continue
        start, end = source.span(node)
        if end - start <= _LONGEST:
            text = source.text[start:end]
            dump = ast.dump(node)
            yield Expression(text, kind, free_names(node), mentions_of(node), source.path, function, dump)


def _read(line: str) -> ModuleSource | None:
    """A line as code; headers of blocks (``if x:``) get an empty body."""
    for attempt in (line, f"{line} pass", line.removeprefix("el") + " pass"):
        try:
            return ModuleSource("", attempt.encode())
        except UnreadableSource:
            continue
    return None
