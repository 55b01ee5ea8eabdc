"""What the source and the failure of a test say: which functions it calls, and which of them failed it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ....sandbox.workspace.names import is_test_path
from ...repo.testing.report import TestCase
from ..source import FUNCTIONS, Function
from .outline import aliases_of, flow_of, statements_in

Read = Callable[[str], bytes]
"""Content of a repository-relative path.

Raises:
    ToolError: there is no such file.
"""

_DEPENDENCE = 0.8
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EXPECTED = re.compile(r"DID NOT RAISE\W+(?:class\W+)?([\w.]+)|(\w+) not raised")
_TOKEN = re.compile(r"\w+|[^\w\s]+")
_COMPARED = re.compile(r"(?:assert )?(.+?) (?:==|!=|is not|is|in|not in|<=|>=|<|>) (.+?)(?: : .*)?$")
_MOST_MESSAGE = 2000


@dataclass(frozen=True)
class TestView:
    """One failing test as evidence."""

    __test__ = False

    case: TestCase
    called: Mapping[str, float]
    """Simple names that the failing statement depends on, by how directly (1: called in it)."""
    title: frozenset[str]
    """Words in the names of the test and its class."""
    module: frozenset[str]
    """Words in the name of the test's file."""
    expected: str = ""
    """Exception that the test waited for in vain."""
    odd: frozenset[str] = field(default_factory=frozenset[str])
    """Tokens that stand on one side only of the assertion's comparison."""
    nothing: bool = False
    """Whether one compared value was None."""

    @property
    def raised(self) -> bool:
        """Whether something other than an assertion ended the test."""
        return self.case.exception.rpartition(".")[2] not in ("AssertionError", "Failed", "")


def words_of(name: str) -> frozenset[str]:
    """Lower-case words of an identifier; a plural counts as its singular."""
    words = {word.lower() for word in _WORD.findall(name)}
    return frozenset(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words)


class TestFiles:
    """The parsed test files; remembers what it read."""

    __test__ = False

    def __init__(self, read: Read) -> None:
        self._read = read
        self._trees: dict[str, ast.Module | None] = {}
        self._mentions: dict[tuple[str, str], frozenset[str]] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._functions: dict[str, dict[str, Function]] = {}

    def tree(self, path: str) -> ast.Module | None:
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self._read(path))
            except Exception:  # noqa: BLE001
                # Broad on purpose: whatever keeps a test's source from being read only costs this evidence.
                self._trees[path] = None
        return self._trees[path]

    def functions(self, path: str) -> dict[str, Function]:
        """``Class.name`` and ``name`` -> definition."""
        if path not in self._functions:
            found: dict[str, Function] = {}
            tree = self.tree(path)
            for node in statements_in(tree) if tree else ():
                if isinstance(node, FUNCTIONS):
                    found.setdefault(node.name, node)
                elif isinstance(node, ast.ClassDef):
                    for each in node.body:
                        if isinstance(each, FUNCTIONS):
                            found[f"{node.name}.{each.name}"] = each
            self._functions[path] = found
        return self._functions[path]

    def aliases(self, path: str) -> dict[str, str]:
        if path not in self._aliases:
            tree = self.tree(path)
            self._aliases[path] = aliases_of(tree) if tree else {}
        return self._aliases[path]

    def definition(self, case: TestCase) -> Function | None:
        owner, name = place_in_file(case.id)
        functions = self.functions(case.path)
        return functions.get(f"{owner}.{name}") or functions.get(name)

    def mentions(self, case: TestCase) -> frozenset[str]:
        """Simple names a test calls anywhere in its source, helpers of its file included once."""
        owner, name = place_in_file(case.id)
        key = (case.path, f"{owner}.{name}")
        if key not in self._mentions:
            definition = self.definition(case)
            found: set[str] = set()
            if definition is not None:
                functions, aliases = self.functions(case.path), self.aliases(case.path)
                found = _called_in(definition)
                for helper in [functions[each] for each in sorted(found) if each in functions]:
                    found |= _called_in(helper)
                found |= {aliases[each] for each in sorted(found) if each in aliases}
            self._mentions[key] = frozenset(found)
        return self._mentions[key]

    def view(self, case: TestCase, executed: Mapping[str, frozenset[int]]) -> TestView:
        """The evidence of one failing test; ``executed``: path -> lines it ran."""
        owner, name = place_in_file(case.id)
        called: dict[str, float] = {}
        places = [(frame.path, frame.line) for frame in case.frames if is_test_path(frame.path)]
        definition = self.definition(case)
        if not places and definition is not None:
            ran = [line for line in executed.get(case.path, ()) if _inside(definition, line)]
            places = [(case.path, max(ran, default=definition.lineno))]
        for path, line in places:
            function = _around(self.functions(path), line)
            if function is not None:
                self._slice(path, function, line, executed.get(path), called)
        if definition is not None:
            for each in _called_in(definition):
                called.setdefault(self.aliases(case.path).get(each, each), 0.15)
        message = case.message[:_MOST_MESSAGE]
        match = _EXPECTED.search(message)
        left, right = _sides(message)
        return TestView(
            case,
            called,
            words_of(name) | words_of(owner),
            words_of(case.path.rpartition("/")[2].removesuffix(".py")),
            (match[1] or match[2]).rpartition(".")[2] if match else "",
            frozenset(_TOKEN.findall(left)) ^ frozenset(_TOKEN.findall(right)),
            "None" in (left.strip(), right.strip()) or "unexpectedly None" in message,
        )

    def _slice(
        self, path: str, function: Function, line: int, ran: frozenset[int] | None, called: dict[str, float]
    ) -> None:
        """Backwards from the failing statement through the statements that made its values."""
        aliases, functions = self.aliases(path), self.functions(path)
        statements = sorted(statements_in(function), key=lambda each: (each.lineno, each.col_offset))
        failing = [each for each in statements if each.lineno <= line <= (each.end_lineno or each.lineno)]
        if not failing:
            return
        wanted: dict[str, float] = {}
        parameters = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}

        def take(node: ast.stmt, weight: float) -> None:
            flow = flow_of(node)
            for name, directness in flow.calls.items():
                real = aliases.get(name, name)
                called[real] = max(called.get(real, 0.0), weight * directness)
            for name in flow.uses:
                wanted[name] = max(wanted.get(name, 0.0), weight * _DEPENDENCE)

        take(failing[-1], 1.0)
        for around in failing[:-1]:
            take(around, _DEPENDENCE)
        for node in reversed([each for each in statements if each.lineno < line and each not in failing]):
            if ran is not None and not ran & frozenset(
                range(node.lineno, (node.end_lineno or node.lineno) + 1)
            ):
                continue
            weight = max((wanted.get(name, 0.0) for name in flow_of(node).defines), default=0.0)
            if weight:
                take(node, weight)
        for name, weight in list(wanted.items()):
            helper = functions.get(name)
            if helper is not None and (name in parameters or name in called) and helper is not function:
                # A fixture, or a helper in the tests' file.
                for each in _called_in(helper):
                    real = aliases.get(each, each)
                    called[real] = max(called.get(real, 0.0), weight * _DEPENDENCE)
        for decorator in function.decorator_list:
            for each in ast.walk(decorator):
                word = each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")
                if isinstance(word, str) and word:
                    called.setdefault(aliases.get(word, word), 0.3)


def place_in_file(test_id: str) -> tuple[str, str]:
    """Class (or empty) and function name of a test id of pytest or unittest."""
    plain = test_id.partition("[")[0]
    parts = plain.split("::")[1:] if "::" in plain else plain.split(".")
    name = parts[-1] if parts else ""
    owner = parts[-2] if len(parts) > 1 else ""
    return owner, name


def _called_in(function: Function) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            found.add(name)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
    found.discard("")
    return found


def _inside(node: Function, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _around(functions: Mapping[str, Function], line: int) -> Function | None:
    inside: Sequence[Function] = [each for each in functions.values() if _inside(each, line)]
    return max(inside, key=lambda each: each.lineno, default=None)


def _sides(message: str) -> tuple[str, str]:
    """The two values that an assertion compared, as text; empty when it did not compare."""
    first = message.partition("\n")[0].removeprefix("AssertionError: ")
    match = _COMPARED.match(first)
    if match:
        return match[1], match[2]
    return "", ""
