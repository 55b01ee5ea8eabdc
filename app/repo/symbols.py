"""Symbols of source files by tree-sitter: definitions, references, what encloses a line, syntax errors.

Lines are 1-based and inclusive; columns are 1-based and count bytes. Every reading
is bounded: files that are binary, too large, minified or too slow to parse give an
empty outline whose ``note`` says why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...sandbox.base.errors import ToolError
from .files import looks_binary, read_regular
from .languages import Grammar, LanguageInfo, detect, load
from .naming import Found, Symbol, name_symbols

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

__all__ = [
    "IDENTIFIER_TYPES",
    "Definitions",
    "Outline",
    "Reference",
    "Symbol",
    "SyntaxProblem",
    "definitions",
    "enclosing",
    "outline",
    "outline_and_tree",
    "references",
    "syntax_errors",
]

MAX_BYTES = 2 << 20
MAX_LINE_BYTES = 20_000
MAX_SECONDS = 5.0
_MAX_TEXT = 240
_CHUNK = 1 << 16
_MATCH_LIMIT = 1 << 16

IDENTIFIER_TYPES = re.compile(r"identifier$|^(constant|name|simple_symbol|word)$")


@dataclass(frozen=True)
class Outline:
    """The definitions of one file in the order of their start."""

    path: str
    language: str | None
    symbols: tuple[Symbol, ...] = ()
    note: str = ""
    """One line when the file was not read wholly (no grammar, too large, broken syntax...), or empty."""


@dataclass(frozen=True)
class Definitions:
    """Definitions of many files and what could not be read, one note per reason."""

    symbols: tuple[Symbol, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """One use of a name (its definition included)."""

    path: str
    line: int
    column: int
    text: str
    """The whole line, bounded."""


@dataclass(frozen=True)
class SyntaxProblem:
    """One place the parser could not make sense of."""

    line: int
    column: int
    message: str


@dataclass(frozen=True)
class _Parsed:
    info: LanguageInfo
    grammar: Grammar
    tree: Tree
    data: bytes


def outline(path: str, data: bytes) -> Outline:
    """The definitions of one file; never raises for what the file holds."""
    return outline_and_tree(path, data)[0]


def outline_and_tree(path: str, data: bytes) -> tuple[Outline, Tree | None, Language | None]:
    """The outline with the syntax tree it was read from and its language; None where there is no tree."""
    parsed, note = _parse(path, data)
    if parsed is None:
        info = detect(path, data)
        return Outline(path, info.name if info else None, note=note), None, None
    found = _definitions_in(parsed)
    if parsed.tree.root_node.has_error:
        note = "the file has syntax errors; symbols near them may be missing"
    symbols = name_symbols(path, parsed.info, parsed.data, found)
    return Outline(path, parsed.info.name, symbols, note), parsed.tree, parsed.grammar.language


def definitions(root: Path, files: Iterable[str], name: str | None = None) -> Definitions:
    """The definitions of ``files`` (relative to ``root``, forward slashes), all or those called ``name``.

    Files in unknown languages are passed over in silence; what is skipped for another
    reason (missing grammar, size, minified) is counted in the notes.
    """
    symbols: list[Symbol] = []
    reasons: dict[str, list[str]] = {}
    for path, data in _sources(root, files, reasons):
        if name is not None and name.encode() not in data:
            continue
        result = outline(path, data)
        if result.note:
            reasons.setdefault(result.note, []).append(path)
        symbols.extend(s for s in result.symbols if name is None or name in (s.name, s.qualified_name))
    return Definitions(tuple(symbols), _notes(reasons))


def enclosing(path: str, data: bytes, line: int) -> Symbol | None:
    """The innermost definition whose lines hold ``line`` (1-based), or None."""
    holding = [s for s in outline(path, data).symbols if s.line <= line <= s.end_line]
    return min(holding, key=lambda s: (s.end_line - s.line, -s.line), default=None)


def references(path: str, data: bytes, name: str) -> tuple[Reference, ...]:
    """Every identifier called ``name`` in one file, by the syntax tree: not in strings or comments."""
    if name.encode() not in data:
        return ()
    parsed, _ = _parse(path, data)
    if parsed is None:
        return ()
    wanted = name.encode()
    lines = data.split(b"\n")
    found: dict[tuple[int, int], Reference] = {}
    # Only the spots where the bytes occur are looked up, so the cost follows the hits, not the tree.
    for hit in re.finditer(re.escape(wanted), data):
        node = parsed.tree.root_node.descendant_for_byte_range(hit.start(), hit.end())
        if node is None or (node.start_byte, node.end_byte) != hit.span():
            continue
        if not IDENTIFIER_TYPES.search(node.type):
            continue
        row, column = node.start_point
        text = lines[row].decode("utf-8", "replace").strip()[:_MAX_TEXT]
        found[(row, column)] = Reference(path, row + 1, column + 1, text)
    return tuple(found[key] for key in sorted(found))


def syntax_errors(path: str, data: bytes, limit: int = 20) -> tuple[SyntaxProblem, ...]:
    """Where the parser met an error or missed a token, at most ``limit``; empty when it cannot tell."""
    parsed, _ = _parse(path, data)
    if parsed is None or not parsed.tree.root_node.has_error:
        return ()
    problems: list[SyntaxProblem] = []
    for node in _error_nodes(parsed.tree.root_node):
        row, column = node.start_point
        if node.is_missing:
            message = f"missing {node.type!r}"
        else:
            shown = (node.text or b"")[:60].decode("utf-8", "replace").split("\n")[0].strip()
            message = f"unexpected {shown!r}"
        problems.append(SyntaxProblem(row + 1, column + 1, message))
        if len(problems) >= limit:
            break
    return tuple(problems)


# ---------------------------------------------------------------- parsing


def _parse(path: str, data: bytes) -> tuple[_Parsed | None, str]:
    """The syntax tree, or None with the reason in one line ("" for a language we do not read)."""
    info = detect(path, data)
    if info is None:
        return None, ""
    if looks_binary(data[:8192]):
        return None, "binary content"
    if len(data) > MAX_BYTES:
        return None, f"larger than {MAX_BYTES} bytes"
    if max(map(len, data.split(b"\n")), default=0) > MAX_LINE_BYTES:
        return None, f"minified or generated (a line longer than {MAX_LINE_BYTES} bytes)"
    try:
        grammar = load(info.name)
    except ToolError as error:
        return None, error.one_line()
    from tree_sitter import Parser

    deadline = time.monotonic() + MAX_SECONDS

    def chunk(offset: int, _point: object) -> bytes:
        return data[offset : offset + _CHUNK]

    def expired(_offset: int, _has_error: bool) -> bool:
        return time.monotonic() > deadline

    try:
        tree = Parser(grammar.language).parse(chunk, progress_callback=expired)
    except ValueError:
        # The parser has one error for everything; with this grammar and input it means the time was up.
        return None, f"not parsed within {MAX_SECONDS:.0f} s"
    return _Parsed(info, grammar, tree, data), ""


def _error_nodes(root: Node) -> Iterator[Node]:
    """Error and missing nodes in source order, without entering clean subtrees; not recursive."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            stack.extend(reversed(node.children))


def _definitions_in(parsed: _Parsed) -> list[Found]:
    from tree_sitter import QueryCursor

    # No progress callback here: tree-sitter 0.26 crashes the process when a query has one. The
    # match limit and the size limit bound the work instead.
    cursor = QueryCursor(parsed.grammar.definitions, match_limit=_MATCH_LIMIT)
    matches = cursor.matches(parsed.tree.root_node)
    found: dict[tuple[int, int, str, bool], Found] = {}
    for _pattern, captures in matches:
        names = captures.get("name")
        label = next((c for c in captures if c == "scope" or c.startswith("definition.")), None)
        if not names or label is None:
            continue
        node = captures[label][0]
        kind = label.removeprefix("definition.")
        receiver = _receiver(captures["receiver"][0]) if "receiver" in captures else ""
        for name in names:
            text = _name(name)
            key = (node.start_byte, node.end_byte, text, kind == "scope")
            previous = found.get(key)
            # Two patterns may see one node: `const F = () => 1` is a function before it is a constant.
            if previous is None or _rank(kind) > _rank(previous.kind):
                found[key] = Found(kind, text, node.start_byte, node.end_byte, node, receiver)
    return sorted(found.values(), key=lambda f: (f.start, -f.end))


def _rank(kind: str) -> int:
    return {"constant": 0, "variable": 0, "type": 1, "class_method": 3}.get(kind, 2)


def _name(node: Node) -> str:
    return " ".join((node.text or b"").decode("utf-8", "replace").split())


def _receiver(node: Node) -> str:
    """``Stack`` from ``*Stack[T]`` (Go)."""
    return re.sub(r"\[.*", "", _name(node)).lstrip("*( ").strip()


def _sources(root: Path, files: Iterable[str], reasons: dict[str, list[str]]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        # Without a suffix only the content can tell; those few files are read to see their first line.
        if detect(path) is None and "." in path.rsplit("/", 1)[-1]:
            continue
        try:
            data = read_regular(root, path, MAX_BYTES)
        except (ToolError, OSError) as error:
            reason = error.message if isinstance(error, ToolError) else (error.strerror or "unreadable")
            reasons.setdefault(reason, []).append(path)
            continue
        if data is None:
            if detect(path) is not None:
                reasons.setdefault(f"larger than {MAX_BYTES} bytes", []).append(path)
            continue
        yield path, data


def _notes(reasons: dict[str, list[str]]) -> tuple[str, ...]:
    notes: list[str] = []
    for reason, paths in sorted(reasons.items()):
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        notes.append(f"{paths[0]}{more}: {reason}")
    return tuple(notes)
