"""Bug files: the right program, the bug as hunks against it, visible and hidden tests, an input generator.

A file is a few header lines (``key: value``) and then sections::

    kind: operators
    === shop/cart.py            the right file, whole
    === bug: shop/cart.py       hunks: <<<<<<< right lines ======= buggy lines >>>>>>>
    === tests/test_cart.py      visible tests
    === tests/test_hidden.py    tests that a repair never sees (any file named test_hidden*)
    === inputs.py               inputs(rng) -> argument tuple, call(argument) -> comparable value

The right side of a hunk occurs exactly once in the right file; the buggy side may be empty.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

HERE = Path(__file__).parent
BUGS = HERE / "bugs"
LOCKED = HERE / "locked"
MODULE = "<module>"

_SECTION, _BUG = "=== ", "bug: "
_OPEN, _MIDDLE, _CLOSE = "<<<<<<<", "=======", ">>>>>>>"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class BadBug(Exception):
    """A bug file that breaks the format; the message names the file."""


@dataclass(frozen=True)
class Hunk:
    """One place where the buggy program differs."""

    right: str
    bug: str


@dataclass(frozen=True)
class Bug:
    """One bug; texts by repository-relative path."""

    name: str
    kind: str
    edits: int
    note: str
    right: Mapping[str, str]
    """Source files of the right program, without tests."""
    hunks: Mapping[str, tuple[Hunk, ...]]
    visible: Mapping[str, str]
    hidden: Mapping[str, str]
    inputs: str

    def buggy(self) -> dict[str, str]:
        """Source files of the buggy program, without tests."""
        return {path: _apply(text, self.hunks.get(path, ())) for path, text in self.right.items()}

    def repository(self) -> dict[str, str]:
        """What a repair starts from: the buggy program and the visible tests."""
        return {**self.buggy(), **self.visible}

    def changed_lines(self) -> dict[str, frozenset[int]]:
        """Lines of the right files (from 1) that the bug changes or removes; may be empty for a file."""
        buggy = self.buggy()
        return {path: _differing(self.right[path], buggy[path])[0] for path in self.hunks}

    def changed_functions(self) -> dict[str, frozenset[str]]:
        """Qualified names, in the buggy program, of the functions that hold the bug.

        ``<module>`` or a class where it is in no function.
        """
        buggy = self.buggy()
        found: dict[str, frozenset[str]] = {}
        for path in self.hunks:
            right_lines, buggy_lines = _differing(self.right[path], buggy[path])
            scopes = Scopes(buggy[path])
            names = {scopes.at(line) for line in buggy_lines}
            names |= {scopes.nearest(Scopes(self.right[path]).at(line)) for line in right_lines}
            found[path] = frozenset(names)
        return found


class Scopes:
    """Which function or class a line is in."""

    def __init__(self, text: str) -> None:
        self._spans = list(_spans(ast.parse(text), ""))
        self.names = frozenset(name for name, _, _, _ in self._spans)
        self.classes = frozenset(name for name, _, _, is_class in self._spans if is_class)

    def at(self, line: int) -> str:
        """The qualified name of the innermost scope around the line (from 1)."""
        around = [each for each in self._spans if each[1] <= line <= each[2]]
        return max(around, key=lambda each: each[1])[0] if around else MODULE

    def nearest(self, name: str) -> str:
        """The name itself, or the innermost scope around it that exists here."""
        while name not in self.names and "." in name:
            name = name.rpartition(".")[0]
        return name if name in self.names else MODULE

    def lines_of(self, name: str) -> range:
        for each, first, last, _ in self._spans:
            if each == name:
                return range(first, last + 1)
        return range(0)


def load(path: Path) -> Bug:
    """Reads a bug file.

    Raises:
        BadBug: it breaks the format.
    """
    header, sections = _sections(path)
    unknown = header.keys() - {"kind", "edits", "note"}
    if unknown or "kind" not in header:
        raise BadBug(f"{path.name}: the header needs kind, and may have edits and note; it has {[*header]}")
    inputs = sections.pop("inputs.py", None)
    if inputs is None:
        raise BadBug(f"{path.name}: no inputs.py")
    right: dict[str, str] = {}
    hunks: dict[str, tuple[Hunk, ...]] = {}
    visible: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for name, text in sections.items():
        pure = PurePosixPath(name)
        if name.startswith(_BUG):
            hunks[name[len(_BUG) :].strip()] = tuple(_hunks(path.name, text))
        elif pure.name.startswith("test_hidden"):
            hidden[name] = text
        elif pure.parts[0] == "tests" or pure.name.startswith("test_"):
            visible[name] = text
        else:
            right[name] = text
    if not (right and hunks and visible and hidden):
        raise BadBug(f"{path.name}: needs a program, a bug, visible tests and hidden tests")
    bug = Bug(
        path.stem,
        header["kind"],
        int(header.get("edits", "1")),
        header.get("note", ""),
        right,
        hunks,
        visible,
        hidden,
        inputs,
    )
    _check(bug)
    return bug


def load_all(folder: Path = BUGS, names: Iterable[str] = ()) -> list[Bug]:
    """All bugs of a folder by name, or those named."""
    paths = [folder / f"{name}.bug" for name in names] or sorted(folder.glob("*.bug"))
    return [load(path) for path in paths]


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files below the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _sections(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith(_SECTION):
            name = line[len(_SECTION) :].strip()
            if name in sections:
                raise BadBug(f"{path.name}: two sections {name}")
            current = sections[name] = []
        elif current is not None:
            current.append(line)
        elif line.strip():
            key, colon, value = line.partition(":")
            if not colon:
                raise BadBug(f"{path.name}: a header line without a colon: {line.strip()!r}")
            header[key.strip()] = value.strip()
    return header, {name: "".join(lines) for name, lines in sections.items()}


def _hunks(name: str, text: str) -> Iterator[Hunk]:
    state, right, bug = "", list[str](), list[str]()
    for line in text.splitlines(keepends=True):
        mark = line.rstrip("\n")
        if mark == _OPEN and not state:
            state, right, bug = "right", [], []
        elif mark == _MIDDLE and state == "right":
            state = "bug"
        elif mark == _CLOSE and state == "bug":
            state = ""
            yield Hunk("".join(right), "".join(bug))
        elif state:
            (right if state == "right" else bug).append(line)
        elif line.strip():
            raise BadBug(f"{name}: outside a hunk: {mark!r}")
    if state:
        raise BadBug(f"{name}: a hunk is not closed")


def _check(bug: Bug) -> None:
    for path, hunks in bug.hunks.items():
        if path not in bug.right:
            raise BadBug(f"{bug.name}: the bug is in {path}, which the program does not have")
        if not hunks:
            raise BadBug(f"{bug.name}: no hunk for {path}")
        for hunk in hunks:
            count = _starts(bug.right[path], hunk.right)
            if len(count) != 1:
                raise BadBug(f"{bug.name}: these lines stand {len(count)} times in {path}: {hunk.right!r}")
            if hunk.right == hunk.bug:
                raise BadBug(f"{bug.name}: a hunk changes nothing: {hunk.right!r}")
        _apply(bug.right[path], hunks)
    program = {**bug.right, **{f"buggy {path}": text for path, text in bug.buggy().items()}}
    for path, text in {**program, **bug.visible, **bug.hidden, "inputs.py": bug.inputs}.items():
        if path.endswith(".py"):
            try:
                ast.parse(text)
            except SyntaxError as error:
                raise BadBug(f"{bug.name}: {path}:{error.lineno}: {error.msg}") from error
    defined = {node.name for node in ast.parse(bug.inputs).body if isinstance(node, ast.FunctionDef)}
    if not {"inputs", "call"} <= defined:
        raise BadBug(f"{bug.name}: inputs.py needs the functions inputs and call")


def _starts(text: str, lines: str) -> list[int]:
    """Offsets at which the lines stand as whole lines."""
    found: list[int] = []
    at = text.find(lines) if lines else -1
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            found.append(at)
        at = text.find(lines, at + 1)
    return found


def _apply(text: str, hunks: Iterable[Hunk]) -> str:
    placed = sorted(((_starts(text, hunk.right)[0], hunk) for hunk in hunks), key=lambda pair: pair[0])
    parts: list[str] = []
    done = 0
    for start, hunk in placed:
        if start < done:
            raise BadBug(f"hunks overlap at {hunk.right!r}")
        parts += [text[done:start], hunk.bug]
        done = start + len(hunk.right)
    return "".join([*parts, text[done:]])


def _differing(right: str, buggy: str) -> tuple[frozenset[int], frozenset[int]]:
    """Lines (from 1) that differ, in each text.

    A blank line differs from nothing.
    """
    a, b = right.splitlines(), buggy.splitlines()
    in_right: set[int] = set()
    in_buggy: set[int] = set()
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            in_right |= {line + 1 for line in range(a1, a2) if a[line].strip()}
            in_buggy |= {line + 1 for line in range(b1, b2) if b[line].strip()}
    return frozenset(in_right), frozenset(in_buggy)


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES):
            name = f"{prefix}{child.name}"
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            yield name, first, child.end_lineno or child.lineno, isinstance(child, ast.ClassDef)
            yield from _spans(child, f"{name}.")
        else:
            yield from _spans(child, prefix)
