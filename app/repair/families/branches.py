"""Branches and loops of the wrong kind: else missing or superfluous, bodies swapped, if against while."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import LEAVING, SIMPLE, is_elif, lines_of, movable, reindented
from ..edits import insert_after
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import LOOPS, Edit

_MOST_VALUES = 5


class Branches(Family):
    name = "branch"
    prior = 0.6
    trust = 0.65
    fault = "took the wrong branch"
    boosts = {"UnboundLocalError": 1.5}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, (ast.If, *LOOPS)) and view.source.function_of(node) is not None:
            yield from self._into_else(node, view)
        if isinstance(node, ast.If) and view.source.function_of(node) is not None:
            yield from self._swapped(node, view)
            yield from self._earlier(node, view)
            yield from self._without_else(node, view)
            yield from self._default(node, view)
            yield from self._last_else(node, view)
        if isinstance(node, (ast.If, ast.While)):
            yield from self._kind(node, view)

    def _into_else(
        self, node: ast.If | ast.For | ast.AsyncFor | ast.While, view: ModuleView
    ) -> Iterator[Proposal]:
        """What follows happens only otherwise."""
        source = view.source
        whole = node
        block = source.block_of(whole)
        if node.orelse or block is None or not source.alone_on_lines(node):
            return
        if isinstance(node, ast.If) and is_elif(view, node):
            top: ast.AST = node
            while isinstance(top, ast.If) and is_elif(view, top):
                top = source.parents[top]
            if not isinstance(top, ast.If):
                return
            whole, block = top, source.block_of(top)
            if block is None:
                return
        looping = not isinstance(node, ast.If)
        if looping and not any(isinstance(each, ast.Break) for each in ast.walk(node)):
            return
        after = block[block.index(whole) + 1 :]
        indent = source.indent(whole)
        for count in (1, 2, 3):
            group = after[:count]
            if len(group) < count or (
                isinstance(group[-1], ast.Return) and len(after) == count and not looping
            ):
                break
            text = reindented(view, group, indent + source.indent_unit)
            if text is None:
                break
            edit = Edit(*lines_of(view, group), f"{indent}else:{source.newline}{text}")
            weight = (0.95 if looping else 0.8) - 0.15 * (count - 1)
            what = "when the loop was not broken off" if looping else "otherwise"
            yield Proposal((edit,), f"does what follows only {what}", weight)

    def _swapped(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        if not node.orelse or (len(node.orelse) == 1 and is_elif(view, node.orelse[0])):
            return
        if not all(view.source.alone_on_lines(each) for each in (*node.body, *node.orelse)):
            return
        one, two = lines_of(view, node.body), lines_of(view, node.orelse)
        text = view.source.text
        if view.source.indent(node.body[0]) != view.source.indent(node.orelse[0]):
            return
        if not text[one[0] : one[1]].endswith("\n") or not text[two[0] : two[1]].endswith("\n"):
            return
        edits = (Edit(*one, text[two[0] : two[1]]), Edit(*two, text[one[0] : one[1]]))
        yield Proposal(edits, "swaps the two branches", 0.85)

    def _earlier(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """An ``elif`` before the branch that hides it."""
        above = view.source.parents.get(node)
        if not is_elif(view, node) or not isinstance(above, ast.If):
            return
        if not all(view.source.alone_on_lines(each) for each in (*above.body, *node.body)):
            return
        text = view.source.text
        tests = view.source.span(above.test), view.source.span(node.test)
        bodies = lines_of(view, above.body), lines_of(view, node.body)
        if any(not text[start:end].endswith("\n") for start, end in bodies):
            return
        edits = tuple(
            Edit(*here, text[there[0] : there[1]])
            for one, two in (tests, bodies)
            for here, there in ((one, two), (two, one))
        )
        yield Proposal(tuple(sorted(edits)), "asks for the later case first", 0.75)

    def _without_else(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """The other branch runs in any case."""
        if (
            not node.orelse
            or is_elif(view, node.orelse[0])
            or not all(movable(view, each) for each in node.orelse)
        ):
            return
        indent = view.source.indent(node)
        if is_elif(view, node):
            indent = view.source.indent(node)
        text = reindented(view, node.orelse, indent)
        if text is None or not view.source.alone_on_lines(node.body[-1]):
            return
        edit = Edit(lines_of(view, [node.body[-1]])[1], lines_of(view, node.orelse)[1], text)
        yield Proposal((edit,), "does the last branch in any case", 0.6)

    def _default(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """A chain whose branches all set the same name, without a last ``else``."""
        if node.orelse or not view.source.alone_on_lines(node):
            return
        name, used = _set_by_all(node, view)
        if name is None:
            return
        function = view.source.function_of(node)
        if function is None:
            return
        values: dict[str, float] = {}
        for kind in (str, int, float, bool):
            if any(type(value) is kind for value in used):
                taken = set(map(repr, used))
                for value in view.constants(view.source.tree, kind):
                    if repr(value) not in taken and len(repr(value)) < 30:
                        values[repr(value).replace("'", '"')] = 0.5
        values |= {"None": 0.7, '""': 0.45, "0": 0.5}
        for parameter in view.local_names(function):
            if parameter not in (name, "self", "cls"):
                values.setdefault(parameter, 0.55)
        ranked = sorted(values.items(), key=lambda pair: -pair[1])[: 2 * _MOST_VALUES]
        for value, weight in ranked:
            edits = insert_after(view, _top(node, view), ["else:", f"\t{name} = {value}"])
            if edits is not None:
                yield Proposal(edits, f"sets {name} to {value} otherwise", weight, Harm.LOOSENS)

    def _last_else(self, node: ast.If, view: ModuleView) -> Iterator[Proposal]:
        """``elif`` whose condition is superfluous."""
        start, _ = view.source.span(node)
        if not is_elif(view, node) or node.orelse:
            return
        _, end = view.source.span(node.test)
        tail = view.source.tokens_between(end, end + 4)
        colon = next((token for token in tail if token.string == ":"), None)
        if colon is not None:
            yield Proposal((Edit(start, colon.start, "else"),), "makes the last elif an else", 0.5)

    def _kind(self, node: ast.If | ast.While, view: ModuleView) -> Iterator[Proposal]:
        start, _ = view.source.span(node)
        if isinstance(node, ast.If):
            if node.orelse or is_elif(view, node) or isinstance(node.body[-1], (ast.Return, ast.Raise)):
                return
            if not any(isinstance(each, SIMPLE) for each in node.body):
                return
            yield Proposal((Edit(start, start + 2, "while"),), "repeats while the condition holds", 0.7)
        elif not any(isinstance(each, (ast.Break, ast.Continue)) for each in ast.walk(node)):
            yield Proposal((Edit(start, start + 5, "if"),), "does it once only", 0.5)


def _top(node: ast.If, view: ModuleView) -> ast.If:
    """The ``if`` that a chain of ``elif`` begins with."""
    while is_elif(view, node):
        parent = view.source.parents.get(node)
        if not isinstance(parent, ast.If):
            break
        node = parent
    return node


def _set_by_all(node: ast.If, view: ModuleView) -> tuple[str | None, list[object]]:
    """The name that every branch up to this last one assigns, with the constants it is given."""
    chain = [node]
    while is_elif(view, chain[-1]):
        parent = view.source.parents.get(chain[-1])
        if not isinstance(parent, ast.If):
            break
        chain.append(parent)
    names: list[set[str]] = []
    constants: list[object] = []
    for each in chain:
        names.append(
            {
                target.id
                for inner in each.body
                for statement in ast.walk(inner)
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name)
            }
        )
        constants += [
            constant.value
            for inner in each.body
            for constant in ast.walk(inner)
            if isinstance(constant, ast.Constant)
        ]
        if isinstance(each.body[-1], LEAVING):
            return None, []
    shared = set.intersection(*names)
    return (min(shared) if shared else None), constants
