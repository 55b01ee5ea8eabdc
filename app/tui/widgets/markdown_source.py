"""Cuts a growing Markdown text into blocks that are final and one that may still change.

Only the text behind the last final block is ever parsed again, and it is kept short: a list is
cut between its items, a table between its rows, a paragraph between its words, and a code fence
is not parsed at all but taken line by line. So n characters cost O(n), however they arrive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .plain_text import clean

__all__ = ["LONGEST_OPEN", "CodeBlock", "MarkdownSource", "TextBlock"]

LONGEST_OPEN = 2000
"""Characters of a block that may still change, before it is cut."""

AT_ONCE = 4000
"""Characters looked at together."""

_DELIMITER = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_BARE_PIPE = re.compile(r"(?<!\\)\|")


@dataclass
class TextBlock:
    """Anything but a top-level code fence. Its text is kept; its tokens only until they are laid out."""

    text: str
    fresh: list[Token] | None = None
    """The tokens, as long as nobody took them."""
    joined: bool = False
    """It goes on with what the block before it began: no blank line between them."""
    before: TextBlock | None = None
    """The first part of a table that was cut: its header was shown there, and its widths count."""
    widths: list[int] | None = None
    """A table's columns at their natural widths, once they were measured."""

    def take_tokens(self) -> list[Token]:
        """Parsed again when they were taken before, as they are a hundred times the text."""
        tokens, self.fresh = self.fresh, None
        return _parser().parse(self.text) if tokens is None else tokens


@dataclass
class CodeBlock:
    """A fence: its lines, which only ever grow, except for the last one."""

    info: str
    lines: list[str] = field(default_factory=list[str])
    partial: str = ""
    """The line that has no end yet."""
    joined: bool = False


Block = TextBlock | CodeBlock


@lru_cache(1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True})
    return parser.enable(["table", "strikethrough", "linkify"])


class MarkdownSource:
    """The text so far, as ``sealed`` blocks (append only) and ``open`` ones (replaced by every ``feed``)."""

    def __init__(self) -> None:
        self.sealed: list[Block] = []
        self.open: list[Block] = []
        self.parsed = 0
        """Characters given to the parser so far: the measure of what streaming costs."""
        self._tail = ""
        self._fence: tuple[CodeBlock, str, int] | None = None
        """The fence that is open, its marker, and by how much it is indented."""
        self._joined = False
        self._table: tuple[str, TextBlock] | None = None
        """Header lines of a table that was cut, and the part before the cut."""

    @property
    def fence(self) -> CodeBlock | None:
        """The fence whose lines come in now."""
        return self._fence[0] if self._fence else None

    def feed(self, text: str) -> None:
        for at in range(0, len(text), AT_ONCE):
            self._tail += text[at : at + AT_ONCE]
            while self._advance():
                pass

    def finish(self) -> None:
        """No more comes: what is open is final."""
        if self._tail and not self._tail.endswith("\n"):
            self.feed("\n")
        self.sealed += self.open
        self.open, self._tail, self._fence = [], "", None

    # ------------------------------------------------------------ steps

    def _advance(self) -> bool:
        """One step; True when something was cut off and the rest is to be looked at again."""
        if self._fence is not None:
            return self._in_fence(*self._fence)
        self.open = []
        if not self._tail.strip():
            return False
        text = self._prefix() + _escaped_pipes(clean(self._tail))
        self.parsed += len(text)
        tokens = _parser().parse(text)
        starts = [
            index
            for index, token in enumerate(tokens)
            if token.level == 0 and token.map and token.nesting >= 0
        ]
        if not starts:
            return False
        lines = [(tokens[start].map or [0])[0] for start in starts]
        whole = text.count("\n")
        # A last line without its end may still turn out to belong to the block before it.
        final = len(starts) - (1 if lines[-1] < whole else 2)
        if final > 0:
            self.sealed += self._blocks(tokens[: starts[final]], starts[:final], text)
            self._tail = self._tail[self._offset(lines[final]) :]
            self._joined, self._table = False, None
            return True
        last = tokens[starts[-1]]
        if last.type == "fence" and lines[-1] < whole:
            self._open_fence(last, lines[-1])
            return True
        if len(self._tail) > LONGEST_OPEN and self._split(tokens, text):
            return True
        self.open = list(self._blocks(tokens, starts, text))
        return False

    def _in_fence(self, block: CodeBlock, marker: str, indent: int) -> bool:
        *whole, rest = self._tail.split("\n")
        for index, line in enumerate(whole):
            bare = line.strip()
            if bare.startswith(marker) and not bare.strip(marker[0]) and len(line) - len(line.lstrip()) < 4:
                self._end_fence(block, "\n".join([*whole[index + 1 :], rest]))
                return True
            dented = line[min(indent, len(line) - len(line.lstrip(" "))) :]
            block.lines.append(clean(dented))
        self._tail = rest
        # A closing marker that is still being written is not shown as code.
        block.partial = "" if rest.strip() and marker.startswith(rest.strip()) else clean(rest)
        self.open = [block]
        return False

    def _end_fence(self, block: CodeBlock, rest: str) -> None:
        block.partial = ""
        self.sealed.append(block)
        self._tail, self._fence, self.open = rest, None, []
        self._joined = False

    def _open_fence(self, token: Token, line: int) -> None:
        rest = self._tail[self._offset(line) :]
        opener, _, body = rest.partition("\n")
        block = CodeBlock(token.info.strip(), joined=self._joined)
        self._fence = (block, token.markup, len(opener) - len(opener.lstrip(" ")))
        self._tail = body
        self.open = [block]

    def _blocks(self, tokens: list[Token], starts: list[int], text: str) -> Iterator[Block]:
        lines = text.split("\n")
        for number, (start, end) in enumerate(pairwise([*starts, len(tokens)])):
            first, joined = tokens[start], self._joined and not number
            if first.type == "fence":
                code = first.content.removesuffix("\n").split("\n")
                yield CodeBlock(first.info.strip(), code, joined=joined)
                continue
            top, bottom = first.map or (0, 0)
            block = TextBlock("\n".join(lines[top:bottom]) + "\n", tokens[start:end], joined)
            if self._table and not number:
                block.before = self._table[1]
            yield block

    def _split(self, tokens: list[Token], text: str) -> bool:
        """Cuts a long block where that changes its look least."""
        first, lines = tokens[0], text.count("\n")
        inner = "tr_open" if first.type == "table_open" else "list_item_open"
        level = 2 if inner == "tr_open" else 1
        cuts = [
            token.map[0] for token in tokens if token.type == inner and token.level == level and token.map
        ]
        cuts = [cut for cut in cuts[1:] if cut < lines]
        if cuts:
            at = self._offset(cuts[-1])
            head, rest = self._tail[:at], self._tail[at:]
            if not head.strip():
                return False
            header = "\n".join(text.split("\n")[:2]) + "\n" if inner == "tr_open" else ""
        else:
            at = self._tail.rfind("\n", 0, LONGEST_OPEN) + 1 or self._tail.rfind(" ", 0, LONGEST_OPEN) + 1
            at = at or LONGEST_OPEN
            head, rest, header = self._tail[:at], self._tail[at:], ""
        self.parsed += len(head)
        block = TextBlock(self._prefix() + _escaped_pipes(clean(head)), joined=self._joined)
        if self._table:
            block.before = self._table[1]
        self.sealed.append(block)
        # Every later part measures itself by the first one.
        self._tail, self._joined = rest, True
        self._table = (header, block.before or block) if header else None
        return bool(rest)

    # ------------------------------------------------------------ helpers

    def _prefix(self) -> str:
        return self._table[0] if self._table else ""

    def _offset(self, line: int) -> int:
        """Where a line of the parsed text begins in the tail."""
        at = 0
        for _ in range(line - self._prefix().count("\n")):
            at = self._tail.find("\n", at) + 1
        return at


def _escaped_pipes(text: str) -> str:
    """Pipes in code spans of tables as characters: everybody writes them so and means it."""
    if "|" not in text or "`" not in text:
        return text
    lines = text.split("\n")
    inside = False
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if not inside and "|" in line and "|" in following and _DELIMITER.match(following):
            inside = True
        elif inside and not line.strip():
            inside = False
        if inside and "`" in line:
            lines[index] = _CODE_SPAN.sub(lambda match: _BARE_PIPE.sub(r"\\|", match.group()), line)
    return "\n".join(lines)
