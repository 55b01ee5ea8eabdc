"""Which tests ran each statement, each branch and each function of a file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property

from .outline import MODULE, Outline, Statement

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Executed:
    """Masks of tests (see ``Spectrum``) for one outline."""

    def __init__(self, outline: Outline, lines: Mapping[int, int]) -> None:
        self.outline = outline
        self._lines = lines
        self.statements: list[int] = [self._of_lines(each.first, each.last) for each in outline.statements]
        """By statement index. Headers of functions count as run wherever the body is."""
        for name, place in outline.functions.items():
            header = outline.at.get(place.first)
            if header is not None and header.function == name:
                self.statements[header.index] = self.functions.get(name, 0)
        self._module_values()

    def _of_lines(self, first: int, last: int) -> int:
        tests = 0
        for line in range(first, last + 1):
            tests |= self._lines.get(line, 0)
        return tests

    @cached_property
    def functions(self) -> dict[str, int]:
        """Function -> tests that ran its body."""
        found: dict[str, int] = {}
        for name, place in self.outline.functions.items():
            tests = self._of_lines(place.body, place.node.body[0].end_lineno or place.body)
            if len(place.node.body) == 1 and ast.get_docstring(place.node, clean=False) is not None:
                # Nothing but a docstring: running it shows at the line of its name.
                tests |= self._of_lines(place.node.lineno, place.body - 1)
            for statement in self.outline.by_function.get(name, ()):
                if statement.first >= place.body:
                    tests |= self._of_lines(statement.first, statement.last)
            found[name] = tests
        return found

    def _module_values(self) -> None:
        """Values at module and class level count as run by the tests of the functions that use them."""
        used: dict[str, int] = {}
        for statement in self.outline.statements:
            if statement.function != MODULE and self.statements[statement.index]:
                for name in self.outline.flows[statement.index].uses:
                    simple = name.rpartition(".")[2]
                    used[simple] = used.get(simple, 0) | self.statements[statement.index]
        for statement in self.outline.by_function.get(MODULE, ()):
            if isinstance(statement.node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                tests = 0
                for name in self.outline.flows[statement.index].defines:
                    tests |= used.get(name, 0)
                self.statements[statement.index] |= tests

    def branches(self, statement: Statement) -> tuple[int, int]:
        """Tests in which the header's condition was certainly once true, and certainly once false."""
        node = statement.node
        if not isinstance(node, (ast.If, ast.While, ast.For, ast.AsyncFor)):
            return 0, 0
        here = self.statements[statement.index]
        taken = here & self._first_of(node.body)
        other = here & ~taken
        if node.orelse:
            other |= here & self._first_of(node.orelse)
        elif isinstance(node, ast.If) and isinstance(node.body[-1], _LEAVES):
            following = self._following.get(statement.index)
            if following is not None:
                other |= here & self.statements[following]
        return taken, other

    def _first_of(self, body: list[ast.stmt]) -> int:
        statement = self.outline.at.get(body[0].lineno)
        return self.statements[statement.index] if statement is not None else 0

    @cached_property
    def _following(self) -> dict[int, int]:
        """Statement index -> index of the next one in the same block."""
        found: dict[int, int] = {}
        last: dict[tuple[int | None, str, int], int] = {}
        for statement in self.outline.statements:
            key = (statement.control, statement.function, statement.node.col_offset)
            if key in last:
                found[last[key]] = statement.index
            last[key] = statement.index
        return found
