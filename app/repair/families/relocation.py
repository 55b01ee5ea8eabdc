"""Statements at the wrong distance: hoisted out of a loop, sunk into one, moved past several others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import (
    LEAVING,
    end_of,
    is_docstring,
    is_elif,
    lines_of,
    movable,
    moved,
    names_in,
    start_of,
    stored_in,
)
from ..edits import delete_statement
from ..family import Family, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, LOOPS, Edit

_BLOCKS = (ast.If, *LOOPS, ast.With, ast.AsyncWith)
_FARTHEST = 4


class Relocations(Family):
    """Moves beyond those to a neighbour or the end of the neighbouring block (family ``move``)."""

    name = "relocation"
    prior = 0.62
    trust = 0.5
    fault = "did something at the wrong place"
    boosts = {"UnboundLocalError": 1.4}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or view.source.function_of(node) is None or is_docstring(node):
            return
        block = view.source.block_of(node)
        if block is None:
            return
        if isinstance(node, ast.If):
            yield from self._out_of_else(node, view)
        elif isinstance(node, ast.Return) and not isinstance(view.source.parents.get(node), FUNCTIONS):
            yield from self._early_return(node, view)
        if not movable(view, node):
            return
        position = block.index(node)
        yield from self._into(node, position, block, view)
        yield from self._before_block(node, position, block, view)
        yield from self._past(node, position, block, view)
        yield from self._farther_out(node, position, block, view)
        yield from self._tails(node, position, block, view)

    def _into(
        self, node: ast.stmt, position: int, block: list[ast.stmt], view: ModuleView
    ) -> Iterator[Proposal]:
        """To the start of a block that follows soon: an initial value per round."""
        if isinstance(node, LEAVING):
            return
        bound = stored_in(node)
        for distance, after in enumerate(block[position + 1 : position + 4]):
            if not isinstance(after, _BLOCKS) or not view.source.alone_on_lines(after.body[0]):
                continue
            inside = bool(bound & names_in(after))
            weight = (0.95 if inside and isinstance(after, LOOPS) else 0.45) - 0.1 * distance
            indent = view.source.indent(after.body[0])
            edits = moved(view, [node], start_of(view, after.body[0]), indent)
            if edits is not None:
                yield Proposal(edits, "moves the statement to the start of the block after it", weight)
            inner = after.body[0]
            if (
                isinstance(inner, LOOPS)
                and bound & names_in(inner)
                and view.source.alone_on_lines(inner.body[0])
            ):
                edits = moved(view, [node], start_of(view, inner.body[0]), view.source.indent(inner.body[0]))
                if edits is not None:
                    yield Proposal(edits, "moves the statement into the inner loop", weight - 0.3)

    def _before_block(
        self, node: ast.stmt, position: int, block: list[ast.stmt], view: ModuleView
    ) -> Iterator[Proposal]:
        """Out of a block, to before it."""
        parent = view.source.parents.get(node)
        if len(block) < 2 or not isinstance(parent, (*_BLOCKS, ast.Try)) or is_elif(view, parent):
            return
        if isinstance(node, LEAVING) or getattr(parent, "decorator_list", None):
            return
        if getattr(parent, "body", None) is not block or position > 2:
            return
        initial = isinstance(node, ast.Assign) and isinstance(
            node.value, (ast.Constant, ast.List, ast.Dict, ast.Set, ast.Call)
        )
        loop = isinstance(parent, LOOPS)
        weight = 0.9 if loop and initial and position == 0 else 0.5 if initial or position == 0 else 0.3
        indent = view.source.indent(parent)
        edits = moved(view, [node], start_of(view, parent), indent)
        if edits is not None:
            yield Proposal(edits, "moves the statement to before its block", weight)
        outer = view.source.loop_of(parent)
        if loop and outer is not None and not is_elif(view, outer):
            edits = moved(view, [node], start_of(view, outer), view.source.indent(outer))
            if edits is not None:
                yield Proposal(edits, "moves the statement to before the outer loop", weight - 0.3)

    def _past(
        self, node: ast.stmt, position: int, block: list[ast.stmt], view: ModuleView
    ) -> Iterator[Proposal]:
        """Up or down past several neighbours of the same block."""
        indent = view.source.indent(node)
        check = isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], LEAVING)
        for distance in range(1, _FARTHEST + 1):
            target = position - distance
            if target < 0 or is_docstring(block[target]):
                break
            if not view.source.alone_on_lines(block[target]):
                break
            if distance == 1 and not isinstance(node, LEAVING):
                continue  # swapped with its neighbour by the family of moves
            weight = (0.8 if check else 0.5) - 0.06 * distance
            edits = moved(view, [node], start_of(view, block[target]), indent)
            if edits is not None and not isinstance(node, LEAVING):
                yield Proposal(edits, f"moves the statement up past {distance} others", weight)
        if isinstance(node, LEAVING):
            return
        for distance in range(2, _FARTHEST + 1):
            target = position + distance
            if target >= len(block) or isinstance(block[target], LEAVING):
                break
            if not view.source.alone_on_lines(block[target]):
                break
            edits = moved(view, [node], end_of(view, block[target]), indent)
            if edits is not None:
                yield Proposal(
                    edits, f"moves the statement down past {distance} others", 0.5 - 0.06 * distance
                )

    def _farther_out(
        self, node: ast.stmt, position: int, block: list[ast.stmt], view: ModuleView
    ) -> Iterator[Proposal]:
        """After the block around the block, or after an ``if`` with an ``else``."""
        parent = view.source.parents.get(node)
        if block[-1] is not node or not isinstance(parent, (*_BLOCKS, ast.Try)) or len(block) < 2:
            return
        whole = parent
        while is_elif(view, whole):
            above = view.source.parents.get(whole)
            if not isinstance(above, ast.If):
                return
            whole = above
        if getattr(parent, "orelse", None) or whole is not parent or isinstance(parent, ast.Try):
            edits = moved(view, [node], end_of(view, whole), view.source.indent(whole))
            if edits is not None and view.source.alone_on_lines(whole):
                yield Proposal(edits, "moves the statement to after its block", 0.65)
        outer = view.source.parents.get(whole)
        if isinstance(outer, _BLOCKS) and not is_elif(view, outer):
            edits = moved(view, [node], end_of(view, outer), view.source.indent(outer))
            if edits is not None and view.source.alone_on_lines(outer):
                yield Proposal(edits, "moves the statement out of two blocks", 0.6)

    def _tails(
        self, node: ast.stmt, position: int, block: list[ast.stmt], view: ModuleView
    ) -> Iterator[Proposal]:
        """Several statements at once: the end of a block out of it, or what follows a block into it."""
        parent = view.source.parents.get(node)
        rest = block[position:]
        tail = position and 2 <= len(rest) <= _FARTHEST
        if tail and isinstance(parent, _BLOCKS) and block is parent.body and not is_elif(view, parent):
            edits = None
            if not getattr(parent, "orelse", None):
                edits = moved(view, rest, end_of(view, parent), view.source.indent(parent))
            if edits is not None:
                yield Proposal(edits, f"moves the last {len(rest)} statements out of their block", 0.6)
        before = block[position - 1] if position else None
        if (
            isinstance(before, _BLOCKS)
            and not getattr(before, "orelse", None)
            and view.source.alone_on_lines(before.body[-1])
        ):
            for count in (2, 3):
                group = block[position : position + count]
                if len(group) < count or isinstance(before.body[-1], LEAVING):
                    break
                edits = moved(view, group, end_of(view, before.body[-1]), view.source.indent(before.body[-1]))
                if edits is not None:
                    yield Proposal(edits, f"moves {count} statements into the block before them", 0.5)

    def _out_of_else(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """``else: return X`` inside a loop, which ends the loop in its first round."""
        loop = view.source.loop_of(node)
        source = view.source
        if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.Return) or loop is None:
            return
        last = node.orelse[0]
        if not movable(view, last) or (loop.body[-1] is not node and source.parents.get(node) is not loop):
            return
        if is_elif(view, node.orelse[0]) or not source.alone_on_lines(loop):
            return
        removed = Edit(source.statement_lines(node.body[-1])[1], lines_of(view, [last])[1], "")
        after = end_of(view, loop)
        text = source.indent(loop) + source.segment(last) + source.newline
        if removed.end == after:
            edits: tuple[Edit, ...] = (Edit(removed.start, removed.end, text),)
        else:
            edits = (removed, Edit(after, after, text))
        yield Proposal(edits, "returns after the loop rather than in its first round", 1.0)
        yield Proposal((removed,), "lets the loop go on", 0.7)

    def _early_return(self, node: ast.Return, view: ModuleView) -> Iterator[Proposal]:
        """A return that ends a loop in its first round."""
        loop = view.source.loop_of(node)
        block = view.source.block_of(node)
        if loop is None or block is None or not movable(view, node) or not view.source.alone_on_lines(loop):
            return
        following = view.source.block_of(loop)
        after = following[following.index(loop) + 1 :] if following else []
        removal = delete_statement(view, node)
        if removal is None:
            return
        if not after and len(block) > 1:
            edits = moved(view, [node], end_of(view, loop), view.source.indent(loop))
            if edits is not None:
                yield Proposal(edits, "returns after the loop", 0.9)
            outer = view.source.loop_of(loop)
            if outer is not None and view.source.alone_on_lines(outer):
                edits = moved(view, [node], end_of(view, outer), view.source.indent(outer))
                if edits is not None:
                    yield Proposal(edits, "returns after the outer loop", 0.8)
        elif len(block) == 1 and not after:
            text = view.source.indent(loop) + view.source.segment(node) + view.source.newline
            end = end_of(view, loop)
            start, stop = view.source.span(node)
            if stop < end:
                edits = (Edit(start, stop, "continue"), Edit(end, end, text))
                yield Proposal(edits, "returns after the loop, which goes on here", 0.5)
