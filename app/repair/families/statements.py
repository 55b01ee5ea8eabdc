"""Whole statements: deleted, moved past a neighbour, moved into or out of a block; elif against if."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator

from ..edits import delete_statement, first_line_body
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, LOOPS, Edit

_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_BLOCKS = (ast.If, *LOOPS, ast.With, ast.AsyncWith)


class Deletion(Family):
    name = "deletion"
    prior = 0.45
    trust = 0.5
    harm = Harm.REMOVES
    fault = "did something it should not do"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Pass)):
            return
        if view.source.is_docstring(getattr(node, "value", node)) or view.source.function_of(node) is None:
            return
        edits = delete_statement(view, node)
        if edits is not None:
            first = view.source.segment(node).splitlines()[0]
            simple = not hasattr(node, "body")
            yield Proposal(edits, f"removes `{first}`", 1.0 if simple else 0.5)


class Moves(Family):
    name = "move"
    prior = 0.6
    trust = 0.5
    fault = "did its steps in the wrong order or block"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or view.source.function_of(node) is None:
            return
        block = view.source.block_of(node)
        if block is None or not view.source.alone_on_lines(node):
            return
        yield from self._swap(node, block, view)
        yield from self._out(node, block, view)
        yield from self._in(node, block, view)
        yield from self._chain(node, block, view)

    def _swap(self, node: ast.stmt, block: list[ast.stmt], view: ModuleView) -> Iterator[Proposal]:
        position = block.index(node)
        if position + 1 >= len(block) or not view.source.alone_on_lines(block[position + 1]):
            return
        other = block[position + 1]
        if isinstance(other, _LEAVING):
            return  # what came after it would never run
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) or view.source.is_docstring(
            getattr(node, "value", node)
        ):
            return
        one, two = view.source.statement_lines(node), view.source.statement_lines(other)
        text = view.source.text
        if not text[two[0] : two[1]].endswith(("\n", "\r")):
            return
        between = text[one[1] : two[0]]
        swapped = text[two[0] : two[1]] + between + text[one[0] : one[1]]
        yield Proposal((Edit(one[0], two[1], swapped),), "swaps two statements", 0.8)

    def _out(self, node: ast.stmt, block: list[ast.stmt], view: ModuleView) -> Iterator[Proposal]:
        """The last statement of a block, one level out."""
        parent = view.source.parents.get(node)
        if (
            block[-1] is not node
            or len(block) < 2
            or not isinstance(parent, _BLOCKS)
            or not _simple(node, view)
        ):
            return
        if isinstance(parent, ast.If) and parent.orelse and block is parent.body:
            return
        if view.source.span(parent)[1] != view.source.span(node)[1]:
            return
        edits = _indented(node, view, view.source.indent(parent))
        yield Proposal(edits, "moves the statement out of its block", 1.0)

    def _in(self, node: ast.stmt, block: list[ast.stmt], view: ModuleView) -> Iterator[Proposal]:
        """The statement after a block, into that block."""
        position = block.index(node)
        if position == 0 or not _simple(node, view):
            return
        before = block[position - 1]
        while isinstance(before, _BLOCKS) and first_line_body(view, before):
            last = (getattr(before, "orelse", None) or before.body)[-1]
            if not view.source.alone_on_lines(last):
                return
            edits = _indented(node, view, view.source.indent(last))
            yield Proposal(edits, "moves the statement into the block before it", 0.9)
            before = last

    def _chain(self, node: ast.stmt, block: list[ast.stmt], view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.If):
            return
        start, _ = view.source.span(node)
        if view.source.text.startswith("elif", start):
            return
        position = block.index(node)
        before = block[position - 1] if position else None
        if isinstance(before, ast.If) and not before.orelse:
            yield Proposal((Edit(start, start, "el"),), "makes the second if an elif", 0.8)


class Chains(Family):
    name = "chain"
    prior = 0.5
    trust = 0.7
    fault = "chained its conditions wrongly"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.If):
            start, _ = view.source.span(node)
            if view.source.text.startswith("elif", start):
                yield Proposal((Edit(start, start + 4, "if"),), "makes the elif an if of its own", 0.8)
        elif isinstance(node, ast.IfExp):
            one, two = view.source.span(node.body), view.source.span(node.orelse)
            text = view.source.text
            edits = (Edit(*one, text[two[0] : two[1]]), Edit(*two, text[one[0] : one[1]]))
            yield Proposal(edits, "swaps the two results of the conditional expression", 0.9, Harm.PRECISE)


def _simple(node: ast.stmt, view: ModuleView) -> bool:
    """Whether re-indenting changes nothing but the indentation (no strings over several lines)."""
    start, end = view.source.span(node)
    for token in view.source.tokens_between(start, end):
        several = "\n" in token.string or "\r" in token.string
        if several and token.kind not in (tokenize.NL, tokenize.NEWLINE):
            return False
    return not isinstance(node, (*FUNCTIONS, ast.ClassDef))


def _indented(node: ast.stmt, view: ModuleView, indent: str) -> tuple[Edit, ...]:
    """The statement's lines with their common indentation replaced."""
    old = view.source.indent(node)
    start, end = view.source.statement_lines(node)
    lines = view.source.text[start:end].splitlines(keepends=True)
    moved = "".join(indent + line[len(old) :] if line.startswith(old) else line for line in lines)
    return (Edit(start, end, moved),)
