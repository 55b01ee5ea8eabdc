"""A Python source file as text with positions: what the mutation families edit.

Edits are spans of characters of the decoded text, so everything outside an edit
(comments, tabs, CRLF, a byte order mark, a Latin-1 coding cookie) is written back
byte for byte. Syntax trees only say where things are; no text is ever generated
from a tree of the original.
"""

from __future__ import annotations

import ast
import bisect
import io
import itertools
import re
import sys
import tokenize
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...sandbox.base.errors import ToolError

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n|\r|\n")
_FSTRING_POSITIONS_ARE_RIGHT = sys.version_info >= (3, 12)

Block = list[ast.stmt]
Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class UnreadableSource(ToolError):
    """A file cannot be decoded, or our own interpreter cannot parse it."""


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the characters ``start:end`` of the text by ``text``."""

    start: int
    end: int
    text: str


def overlapping(edits: Iterable[Edit]) -> bool:
    """Whether two of the edits touch the same characters."""
    ordered = sorted(edits)
    return any(later.start < earlier.end for earlier, later in itertools.pairwise(ordered))


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap (ValueError when they do)."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits):
        if edit.start < position:
            raise ValueError(f"overlapping edits at character {edit.start}")
        pieces += [text[position : edit.start], edit.text]
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)


@dataclass(frozen=True)
class Token:
    """One token with character offsets."""

    start: int
    end: int
    kind: int
    string: str


class ModuleSource:
    """One parsed source file.

    Attributes:
        path: repository-relative path with forward slashes.
        text: decoded content with its own line ends, without the byte order mark.
        tree: the module's syntax tree.

    Raises:
        UnreadableSource: from the constructor, when decoding or parsing fails.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._bom = data.startswith(_BOM)
        body = data[len(_BOM) :] if self._bom else data
        try:
            self.encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
            if self.encoding == "utf-8-sig":
                self.encoding = "utf-8"
            self.text = body.decode(self.encoding)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.tree = ast.parse(self.text, filename=path)
        except (SyntaxError, UnicodeDecodeError, LookupError, ValueError, RecursionError) as error:
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            reason = " ".join(str(error).split())
            raise UnreadableSource(
                f"{path} cannot be read as Python {version} source: {reason}",
                hint="repair edits only files that this interpreter can parse",
            ) from error
        self._starts = [0] + [match.end() for match in _LINE_END.finditer(self.text)]

    # ------------------------------------------------------------ positions

    def encode(self, text: str) -> bytes:
        """Text back to bytes in the file's own encoding (UnicodeEncodeError when impossible)."""
        return (_BOM if self._bom else b"") + text.encode(self.encoding)

    def offset(self, line: int, column: int) -> int:
        """Character offset of a 1-based line and a UTF-8 column as ``ast`` gives them."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        content = self.text[start:end]
        if content.isascii():
            return start + column
        return start + len(content.encode("utf-8")[:column].decode("utf-8", "ignore"))

    def line_of(self, offset: int) -> int:
        """1-based line of a character offset."""
        return bisect.bisect_right(self._starts, offset)

    def line_start(self, offset: int) -> int:
        return self._starts[self.line_of(offset) - 1]

    def line_end(self, offset: int) -> int:
        """Offset after the line end of the line that holds ``offset``."""
        line = self.line_of(offset)
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end offsets of a node (without parentheses around it)."""
        located = node  # expressions, statements, arguments, handlers, keywords, aliases
        return (
            self.offset(located.lineno, located.col_offset),  # type: ignore[attr-defined]
            self.offset(located.end_lineno, located.end_col_offset),  # type: ignore[attr-defined]
        )

    def segment(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    @cached_property
    def newline(self) -> str:
        match = _LINE_END.search(self.text)
        return match.group() if match else "\n"

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """Tokens in order; empty when the tokenizer disagrees with the parser."""
        result: list[Token] = []
        # The tokenizer gets the same text line by line, so its rows are ours.
        lines = iter(self.text[a:b] for a, b in zip(self._starts, [*self._starts[1:], None], strict=True))
        try:
            for token in tokenize.generate_tokens(lambda: next(lines, "")):
                if token.type in (tokenize.ENDMARKER, tokenize.DEDENT, tokenize.INDENT):
                    continue
                start = self._starts[token.start[0] - 1] + token.start[1]
                end = self._starts[token.end[0] - 1] + token.end[1]
                result.append(Token(start, end, token.type, token.string))
        except (tokenize.TokenError, IndentationError, IndexError):
            return ()
        return result

    @cached_property
    def _token_starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def tokens_between(self, start: int, end: int) -> Sequence[Token]:
        low = bisect.bisect_left(self._token_starts, start)
        high = bisect.bisect_left(self._token_starts, end)
        return self.tokens[low:high]

    def operator_between(self, left: ast.AST, right: ast.AST) -> tuple[int, int] | None:
        """The span of the operator that stands between two operands (two words for ``not in``)."""
        inner = [
            token
            for token in self.tokens_between(self.span(left)[1], self.span(right)[0])
            if token.kind in (tokenize.OP, tokenize.NAME) and token.string not in ("(", ")")
        ]
        if not inner:
            return None
        words = 1
        if inner[0].string in ("not", "is") and len(inner) > 1 and inner[1].string in ("in", "not"):
            words = 2
        return inner[0].start, inner[words - 1].end

    # ------------------------------------------------------------ structure

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        found: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                # Contexts and operators are shared objects; only located nodes have one parent.
                if hasattr(child, "lineno") or isinstance(child, (ast.arguments, ast.comprehension)):
                    found[child] = node
        return found

    def ancestors(self, node: ast.AST) -> Iterable[ast.AST]:
        """Parents from the nearest outwards."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function whose body holds the node."""
        return next((each for each in self.ancestors(node) if isinstance(each, FUNCTIONS)), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        return next((each for each in self.ancestors(node) if isinstance(each, ast.ClassDef)), None)

    def loop_of(self, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
        """The innermost loop of the same function whose body holds the node."""
        for each in self.ancestors(node):
            if isinstance(each, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
                return None
            if isinstance(each, LOOPS):
                return each
        return None

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        if isinstance(node, ast.stmt):
            return node
        return next((each for each in self.ancestors(node) if isinstance(each, ast.stmt)), None)

    def block_of(self, statement: ast.stmt) -> Block | None:
        """The list of statements that holds a statement."""
        parent = self.parents.get(statement)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and statement in block:
                return block  # pyright: ignore[reportUnknownVariableType]
        return None

    @cached_property
    def _inside_fstrings(self) -> frozenset[ast.AST]:
        return frozenset(
            inner
            for node in ast.walk(self.tree)
            if isinstance(node, ast.JoinedStr)
            for inner in ast.walk(node)
            if inner is not node and hasattr(inner, "lineno")
        )

    def editable(self, node: ast.AST) -> bool:
        """Whether the node's position can be trusted (inside f-strings before 3.12 only after a look)."""
        if node not in self._inside_fstrings:
            return True
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue)):
            return False
        if _FSTRING_POSITIONS_ARE_RIGHT:
            return True
        if not isinstance(node, ast.expr) or isinstance(node, ast.Constant):
            return False
        try:
            return ast.dump(ast.parse(self.segment(node), mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError, IndexError):
            return False

    def inside_fstring(self, node: ast.AST) -> bool:
        return node in self._inside_fstrings

    def is_docstring(self, node: ast.AST) -> bool:
        parent = self.parents.get(node)
        return isinstance(parent, ast.Expr) and isinstance(node, ast.Constant)

    # ------------------------------------------------------------ lines

    def indent(self, statement: ast.AST) -> str:
        """The white space before the statement on its first line."""
        start = self.span(statement)[0]
        line = self.text[self.line_start(start) : start]
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    @cached_property
    def indent_unit(self) -> str:
        """One level of indentation as this file writes it."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and self.alone_on_lines(body[0]):
                outer, inner = self.indent(node), self.indent(body[0])
                if inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return "    "

    def alone_on_lines(self, statement: ast.stmt) -> bool:
        """Whether nothing but white space and comments shares the statement's lines."""
        start, end = self.span(statement)
        if self.text[self.line_start(start) : start].strip():
            return False
        rest = self.text[end : self.line_end(end)].strip()
        return not rest or rest.startswith("#")

    def statement_lines(self, statement: ast.stmt) -> tuple[int, int]:
        """Offsets of the whole lines of a statement that stands alone on them."""
        start, end = self.span(statement)
        first = start
        for decorator in getattr(statement, "decorator_list", ()):
            first = min(first, self.span(decorator)[0])
        return self.line_start(first), self.line_end(end)
