"""A clause too few: in a condition, in a comprehension, or around a statement; and one too many there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import SIMPLE, is_docstring, is_elif, lines_of, movable, names_in, own_nodes, reindented, wrap
from ..clauses import conditions
from ..edits import replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..scope_clauses import Clause
from ..source import Edit

_MOST = 10


class Clauses(Family):
    """Uses the conditions that could hold at a place (see ``clauses``)."""

    name = "clause"
    prior = 0.62
    trust = 0.7
    fault = "missed a part of its condition"
    boosts = {  # noqa: RUF012
        "IndexError": 1.4,
        "KeyError": 1.2,
        "TypeError": 1.15,
        "AttributeError": 1.15,
    }

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield from self._added(node.test, node, view)
        elif isinstance(node, ast.comprehension):
            for each in node.ifs:
                yield from self._added(each, node.target, view)
            if not node.ifs:
                yield from self._filter(node, view)
        elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Compare, ast.BoolOp, ast.Call)):
            yield from self._added(node.value, node, view)
        if isinstance(node, ast.stmt) and view.source.function_of(node) is not None:
            yield from self._around(node, view)
            if isinstance(node, ast.If):
                yield from self._unwrapped(node, view)

    def _added(self, test: ast.expr, place: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not view.source.editable(test):
            return
        old = view.source.segment(test)
        plain = ast.unparse(test)
        clauses = conditions(view).at(place, list(ast.walk(test)), _MOST)
        if isinstance(place, (ast.If, ast.While)):
            # What the body needs.
            inside = [place.body[0], *own_nodes(place.body[0])]
            needed = [each for each in conditions(view).at(place.body[0], inside) if each.first]
            clauses += needed[: _MOST // 2]
        for clause in clauses:
            if clause.text in plain or clause.opposite in plain:
                continue
            yield from self._joined(test, old, clause, view)

    def _joined(self, test: ast.expr, old: str, clause: Clause, view: ModuleView) -> Iterator[Proposal]:
        loose = isinstance(test, (ast.IfExp, ast.Lambda, ast.NamedExpr))
        disjunction = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
        within = f"({old})" if loose or disjunction else old
        stronger = f"{clause.text} and {within}" if clause.first else f"{within} and {clause.text}"
        yield Proposal(
            replace(view, test, stronger), f"also asks `{clause.text}`", clause.weight, Harm.PRECISE
        )
        within = f"({old})" if loose else old
        other = clause.opposite
        weaker = f"{other} or {within}" if clause.first else f"{within} or {other}"
        yield Proposal(
            replace(view, test, weaker), f"also accepts `{other}`", 0.8 * clause.weight, Harm.PRECISE
        )

    def _filter(self, node: ast.comprehension, view: ModuleView) -> Iterator[Proposal]:
        """A comprehension that should leave items out."""
        owner = view.source.parents.get(node)
        if owner is None or not view.source.editable(owner) or not isinstance(node.target, ast.Name):
            return
        if not isinstance(owner, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return
        name = node.target.id
        end = _end_with_parentheses(view, node)
        value = owner.value if isinstance(owner, ast.DictComp) else owner.elt
        options: dict[str, float] = {}
        for each in ast.walk(value):
            short = isinstance(each, (ast.Call, ast.Attribute, ast.Subscript)) and view.source.editable(each)
            if short and len(view.source.segment(each)) <= 40 and name in names_in(each):
                options.setdefault(view.source.segment(each), 0.7)
        for clause in conditions(view).at(value, list(ast.walk(value)), _MOST):
            options.setdefault(clause.text, clause.weight)
        for text, weight in list(options.items())[:_MOST]:
            yield Proposal(
                (Edit(end, end, f" if {text}"),), f"leaves out what is not `{text}`", weight, Harm.LOOSENS
            )

    def _around(self, node: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """A statement that should run only sometimes."""
        if not isinstance(node, (*SIMPLE, ast.Break, ast.Continue)) or is_docstring(node):
            return
        if not movable(view, node) or isinstance(node, ast.Return):
            return
        parent = view.source.parents.get(node)
        tested = ast.unparse(parent.test) if isinstance(parent, (ast.If, ast.While)) else ""
        for clause in conditions(view).at(node, [node, *own_nodes(node)], _MOST):
            if clause.text in tested:
                continue
            edits = wrap(view, [node], [f"if {clause.text}:"])
            if edits is not None:
                yield Proposal(edits, f"does it only if {clause.text}", 0.9 * clause.weight, Harm.LOOSENS)

    def _unwrapped(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """The body of an ``if`` that should always run."""
        if node.orelse or is_elif(view, node) or not movable(view, node):
            return
        text = reindented(view, node.body, view.source.indent(node))
        if text is not None and movable(view, node.body[0]):
            edit = Edit(*lines_of(view, [node]), text)
            yield Proposal((edit,), f"does it whether or not {ast.unparse(node.test)}", 0.6, Harm.REMOVES)


def _end_with_parentheses(view: ModuleView, node: ast.comprehension) -> int:
    """Where the iterable ends, parentheses around it included."""
    source = view.source
    start, end = source.span(node.iter)
    before = source.tokens_between(source.span(node.target)[1], start)
    depth = sum(token.string == "(" for token in before) - sum(token.string == ")" for token in before)
    for token in source.tokens_between(end, end + 8):
        if depth <= 0 or token.string != ")":
            break
        depth -= 1
        end = token.end
    return end
