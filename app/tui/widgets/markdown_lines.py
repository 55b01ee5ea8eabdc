"""Blocks of Markdown as lines of a given width. Pure: tokens in, styled lines out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it.token import Token
from rich.cells import cell_len
from textual.content import Content, Span
from textual.style import Style

from .code_style import Language, language_of, spans_of
from .markdown_source import CodeBlock, TextBlock
from .plain_text import link_target

__all__ = ["CodeLines", "code_content", "inline", "lines_of"]

NARROWEST = 4
"""Cells a table column keeps however narrow the screen."""
BULLETS = "•◦▪"
_SPACES = re.compile(r"[ \t\n]+")


def inline(tokens: Sequence[Token]) -> Content:
    """The text of an inline token's children. Nothing in it is markup any more."""
    parts: list[str] = []
    spans: list[Span] = []
    begun: list[tuple[int, list[str | Style]]] = []
    at = 0

    def add(text: str) -> None:
        nonlocal at
        parts.append(text)
        at += len(text)

    for token in tokens:
        kind = token.type
        if kind in ("softbreak", "hardbreak"):
            add("\n" if kind == "hardbreak" else " ")
        elif kind == "code_inline":
            start = at
            add(token.content)
            spans.append(Span(start, at, "code"))
        elif kind == "image":
            start = at
            add(f"▣ {token.content or 'image'}")
            spans.append(Span(start, at, "link"))
        elif kind == "link_open":
            address = link_target(str(token.attrs.get("href", "")))
            begun.append((at, ["link", Style(link=address)] if address else ["em"]))
        elif kind.endswith("_open"):
            begun.append((at, [kind.removesuffix("_open")]))
        elif kind.endswith("_close"):
            if begun:
                start, styles = begun.pop()
                spans += [Span(start, at, style) for style in styles]
        else:
            add(_SPACES.sub(" ", token.content))
    return Content("".join(parts), spans)


def lines_of(block: TextBlock, width: int) -> list[Content]:
    """All lines of a block."""
    return [line for piece in _pieces(block.take_tokens()) for line in _laid_out(piece, block, width)]


# ------------------------------------------------------------ pieces: what stands below what


@dataclass
class _Piece:
    """Something with its indentation: text that wraps, a code block, a table or a rule."""

    kind: str
    first: Content
    rest: Content
    content: Content | None = None
    text: str = ""
    rows: Sequence[Sequence[Content]] = ()
    aligns: Sequence[str] = ()


_EMPTY = Content("")


def _pieces(tokens: Sequence[Token]) -> Iterator[_Piece]:
    """Flattens nesting into indentation."""
    lists: list[int | None] = []
    """Open lists: the number of the next item, None for bullets."""
    prefixes: list[Content] = []
    marker: Content | None = None
    loose_gap = False
    rows: list[list[Content]] = []
    aligns: list[str] = []
    style = ""

    def prefix(last: bool) -> Content:
        nonlocal marker
        parts = list(prefixes)
        if last and marker is not None and parts:
            parts[-1], marker = marker, None
        return Content("").join(parts) if parts else _EMPTY

    def piece(kind: str, **more: object) -> _Piece:
        first = prefix(True)
        return _Piece(kind, first, prefix(False), **more)  # type: ignore[arg-type]

    for index, token in enumerate(tokens):
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            number = int(str(token.attrs.get("start", 1))) if kind.startswith("ordered") else None
            lists.append(number)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            lists.pop()
        elif kind == "list_item_open":
            number = lists[-1]
            if number is None:
                text = f"{BULLETS[(len(lists) - 1) % len(BULLETS)]} "
            else:
                text = f"{number}. "
                lists[-1] = number + 1
            marker = Content(text, [Span(0, len(text), "bullet")])
            prefixes.append(Content(" " * cell_len(text)))
            loose_gap = False
        elif kind == "list_item_close":
            if marker is not None:
                yield piece("text", content=_EMPTY)
            prefixes.pop()
            loose_gap = False
        elif kind == "blockquote_open":
            prefixes.append(Content("▌ ", [Span(0, 1, "quote")]))
        elif kind == "blockquote_close":
            prefixes.pop()
        elif kind == "heading_open":
            style = token.tag
        elif kind == "heading_close":
            style = ""
        elif kind == "paragraph_open":
            if loose_gap and not token.hidden:
                yield _Piece("text", prefix(False), _EMPTY, content=_EMPTY)
        elif kind == "paragraph_close":
            loose_gap = bool(prefixes) and not token.hidden
        elif kind == "hr":
            yield piece("rule")
        elif kind in ("fence", "code_block"):
            yield piece("code", text=token.content, content=Content(token.info.strip()))
        elif kind == "table_open":
            rows, aligns = [], []
        elif kind == "tr_open":
            rows.append([])
        elif kind in ("th_open", "td_open"):
            if len(rows) == 1:
                aligns.append(str(token.attrs.get("style", "")).rpartition(":")[2])
        elif kind == "table_close":
            yield piece("table", rows=rows, aligns=aligns)
        elif kind == "inline":
            content = inline(token.children or [])
            if index and tokens[index - 1].type in ("th_open", "td_open"):
                rows[-1].append(content)
                continue
            if prefixes and content.plain[:4] in ("[ ] ", "[x] ", "[X] "):
                done = content.plain[1] != " "
                content = Content("☑ " if done else "☐ ") + content[4:]
            if style:
                content = content.stylize_before(style)
            yield piece("text", content=content)


# ------------------------------------------------------------ layout


def _laid_out(piece: _Piece, block: TextBlock, width: int) -> Iterator[Content]:
    first, rest = piece.first, piece.rest
    if rest.cell_length > max(4, width - 12):
        # Deeper than the screen is wide: the indentation goes before the text does.
        first, rest = (part[: max(0, width - 12)] for part in (first, rest))
    room = max(4, width - rest.cell_length)
    if piece.kind == "text":
        lines = (piece.content or _EMPTY).wrap(room)
    elif piece.kind == "rule":
        lines = [Content("─" * room, [Span(0, room, "rule")])]
    elif piece.kind == "code":
        language = language_of((piece.content or _EMPTY).plain)
        lines = list(CodeLines(piece.text.rstrip("\n").split("\n"), language).lines(room))
    else:
        lines = _table(piece, block, room)
    for index, line in enumerate(lines or [_EMPTY]):
        yield (first if index == 0 else rest) + line


def code_content(line: str, language: Language | None, inside: str) -> tuple[Content, str]:
    """One line of code with its colours, and what is open behind it."""
    if language is None:
        return Content(line), ""
    found, inside = spans_of(line, language, inside)
    return Content(line, [Span(start, end, style) for start, end, style in found]), inside


class CodeLines:
    """Lines of code that only grow: each is coloured and folded once."""

    def __init__(self, source: list[str], language: Language | None) -> None:
        self._source = source
        self._language = language
        self._inside = ""
        self._taken = 0

    def lines(self, width: int) -> Iterator[Content]:
        """The lines that were not given yet, folded to ``width``."""
        while self._taken < len(self._source):
            content, self._inside = code_content(self._source[self._taken], self._language, self._inside)
            self._taken += 1
            yield from folded(content, width)

    def preview(self, line: str, width: int) -> Iterator[Content]:
        """A line that is still being written."""
        yield from folded(code_content(line, self._language, self._inside)[0], width)


def folded(content: Content, width: int) -> Sequence[Content]:
    return [content] if content.cell_length <= width else content.fold(width)


def code_lines(block: CodeBlock) -> CodeLines:
    return CodeLines(block.lines, language_of(block.info))


def _natural(rows: Sequence[Sequence[Content]]) -> list[int]:
    """Cells every column would like to have."""
    count = max(len(row) for row in rows)
    return [max([1, *(_widest(row[index]) for row in rows if index < len(row))]) for index in range(count)]


def _widths(wanted: list[int], room: int) -> list[int]:
    """Cells per column: as wide as wanted where that fits, else narrow columns keep theirs."""
    count = len(wanted)
    spare = max(count, room - 3 * (count - 1))
    if sum(wanted) <= spare:
        return wanted
    widths = [0] * count
    open_columns = sorted(range(count), key=lambda index: wanted[index])
    while open_columns:
        share = max(1, spare // len(open_columns))
        index = open_columns.pop(0)
        widths[index] = min(wanted[index], share)
        spare -= widths[index]
    return widths


def _widest(content: Content) -> int:
    return max(cell_len(line) for line in content.plain.split("\n"))


def _table(piece: _Piece, block: TextBlock, room: int) -> list[Content]:
    rows = [row for row in piece.rows if row]
    if not rows:
        return []
    root = block.before or block
    if root.widths is None:
        root.widths = _natural(rows)
    widths = _widths(root.widths, room)
    count = len(widths)
    if count * NARROWEST + 3 * (count - 1) > room:
        return _stacked(rows, room)
    lines: list[Content] = []
    bar = Content(" │ ", [Span(0, 3, "rule")])
    for number, row in enumerate(rows):
        if number == 0 and block.before is not None:
            continue
        cells = [
            (row[index] if index < len(row) else _EMPTY).wrap(widths[index]) or [_EMPTY]
            for index in range(count)
        ]
        for height in range(max(map(len, cells))):
            line = [
                _aligned(
                    cell[height] if height < len(cell) else _EMPTY, widths[index], _align(piece.aligns, index)
                )
                for index, cell in enumerate(cells)
            ]
            joined = bar.join(line)
            lines.append(joined.stylize("strong") if number == 0 else joined)
        if number == 0:
            rule = "─┼─".join("─" * width for width in widths)
            lines.append(Content(rule, [Span(0, len(rule), "rule")]))
    return lines


def _align(aligns: Sequence[str], index: int) -> str:
    return aligns[index] if index < len(aligns) else ""


def _aligned(content: Content, width: int, align: str) -> Content:
    missing = width - content.cell_length
    if missing <= 0:
        return content
    left = {"right": missing, "center": missing // 2}.get(align, 0)
    return content.pad(left, missing - left)


def _stacked(rows: Sequence[Sequence[Content]], room: int) -> list[Content]:
    """A table with more columns than the screen can show side by side: each row as lines of its own."""
    lines: list[Content] = []
    titles = rows[0]
    for row in rows[1:]:
        for index, cell in enumerate(row):
            title = titles[index] if index < len(titles) else _EMPTY
            lines += (title.stylize("strong") + Content(": ") + cell).wrap(room)
        lines.append(Content("─" * room, [Span(0, room, "rule")]))
    return lines
