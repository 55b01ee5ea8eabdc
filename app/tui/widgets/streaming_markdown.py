"""Markdown that grows while it is read: only its last block is ever laid out again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.timer import Timer

from .markdown_lines import CodeLines, code_lines, lines_of
from .markdown_source import Block, CodeBlock, MarkdownSource
from .strips_widget import CODE_COLOURS, Lines, Row, StripsWidget, row_of

__all__ = ["StreamingMarkdown"]


MOST_AT_ONCE = 4000
"""Characters taken in one go."""


class StreamingMarkdown(StripsWidget):
    """A message of the model.

    ``append`` may be called for every few characters: the screen is brought up to date at most
    ``RATE`` times a second. Text is data: brackets are brackets, and links are handed to the
    terminal (OSC 8) only for web and mail addresses.
    """

    COLOURS: ClassVar[Mapping[str, str]] = {
        **CODE_COLOURS,
        "h1": "$text-primary bold underline",
        "h2": "$text-primary bold",
        "h3": "$text-secondary bold",
        "h4": "bold",
        "h5": "bold",
        "h6": "bold",
        "strong": "bold",
        "em": "italic",
        "s": "strike",
        "code": "$text-warning",
        "link": "$text-accent underline",
        "quote": "$foreground 60%",
        "rule": "$foreground 38%",
        "bullet": "$text-secondary",
        "block": "on $foreground 5%",
    }
    DEFAULT_CSS = """
    StreamingMarkdown {
        height: auto; width: 1fr; color: $foreground;
    }
    """
    RATE = 20

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._source = MarkdownSource()
        self._text: list[str] = []
        self._pending: list[str] = []
        self._timer: Timer | None = None
        self._width = 0
        self._lines = Lines()
        """All lines at ``_width``: those of sealed blocks first."""
        self._settled = 0
        """Lines that belong to sealed blocks or to finished lines of an open fence."""
        self._laid_out = 0
        """Sealed blocks that are in ``_strips``."""
        self._fence: tuple[CodeBlock, CodeLines] | None = None
        self.finished = False
        self._ending = bool(text)
        """It is finished as soon as what is pending is shown."""
        if text:
            self._text.append(text)
            self._pending.append(text)
            if len(text) <= MOST_AT_ONCE:
                self.finish()

    # ------------------------------------------------------------ the stream

    @property
    def source(self) -> str:
        """Everything that was appended."""
        self._text = ["".join(self._text)]
        return self._text[0]

    @property
    def characters_parsed(self) -> int:
        return self._source.parsed

    def append(self, text: str) -> None:
        """More of the message; shown at the next tick."""
        if not text:
            return
        self._text.append(text)
        self._pending.append(text)
        self._tick_soon()

    def on_mount(self) -> None:
        self._tick()

    def _tick_soon(self) -> None:
        if self._timer is None and self.is_mounted:
            self._timer = self.set_timer(1 / self.RATE, self._tick)

    def _tick(self) -> None:
        """Shows some of what is pending: a flood of text must not hold up the keyboard."""
        self._stop_timer()
        text = "".join(self._pending)
        self._pending = [text[MOST_AT_ONCE:]] if len(text) > MOST_AT_ONCE else []
        self._feed(text[:MOST_AT_ONCE])
        if self._pending:
            self._timer = self.set_timer(0.001, self._tick)
        elif self._ending:
            self.finish()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _feed(self, text: str) -> None:
        if text:
            self._source.feed(text)
            self._show()

    def flush(self) -> None:
        """Shows all that is pending now."""
        self._stop_timer()
        text = "".join(self._pending)
        self._pending.clear()
        self._feed(text)

    def finish(self) -> None:
        """Nothing more comes. A lot that is still pending is shown over the next ticks."""
        self._ending = True
        if sum(map(len, self._pending)) > MOST_AT_ONCE:
            self._tick_soon()
            return
        self.flush()
        self._source.finish()
        self.finished = True
        self._show()

    def discard(self) -> None:
        """The step is repeated: what came so far is void, and what comes next replaces it."""
        self._text.clear()
        self._pending.clear()
        self._source = MarkdownSource()
        self.finished = self._ending = False
        self.forget_strips()
        if self.is_mounted:
            self.refresh(layout=True)

    def renew(self) -> Callable[[], StreamingMarkdown] | None:
        """What makes this widget again; None while it grows."""
        if not self.finished:
            return None
        text, classes = self.source, " ".join(self.classes)
        return lambda: StreamingMarkdown(text, classes=classes)

    def _show(self) -> None:
        if not self.is_mounted or self._width == 0:
            return
        before, settled = len(self._lines), self._settled
        old = self._lines.rows[settled:]
        self.strips_for(self._width)
        if len(self._lines) != before:
            self.refresh(layout=True)
            return
        changed = [y for y, row in enumerate(self._lines.rows[settled:], settled) if row != old[y - settled]]
        if changed:
            self.refresh(Region(0, changed[0], self._width, changed[-1] + 1 - changed[0]))

    # ------------------------------------------------------------ lines

    def forget_strips(self) -> None:
        self._lines, self._settled, self._laid_out, self._fence = Lines(), 0, 0, None
        self._shown_state = None

    _shown_state: tuple[int, int] | None = None

    def strips_for(self, width: int) -> Sequence[Strip]:
        if width != self._width:
            self.forget_strips()
            self._width = width
        source = self._source
        state = (len(source.sealed), source.parsed)
        if state == self._shown_state and source.fence is None:
            return self._lines
        self._shown_state = state
        del self._lines.rows[self._settled :]
        while self._laid_out < len(source.sealed):
            self._add(source.sealed[self._laid_out])
            self._settled = len(self._lines)
            self._laid_out += 1
        for block in source.open:
            self._add(block)
        return self._lines

    def _add(self, block: Block) -> None:
        rows, palette = self._lines.rows, self.palette
        begun = self._fence is not None and self._fence[0] is block
        if rows and not block.joined and not begun:
            rows.append(((), 0))
        if isinstance(block, CodeBlock):
            self._add_code(block)
        else:
            rows += [row_of(line, palette) for line in lines_of(block, self._width)]

    def _add_code(self, block: CodeBlock) -> None:
        if self._fence is None or self._fence[0] is not block:
            self._fence = (block, code_lines(block))
        lines, room = self._fence[1], max(4, self._width - 2)
        self._lines.rows += [self._code_row(line) for line in lines.lines(room)]
        if block is not self._source.fence:
            self._fence = None
            return
        # Its finished lines stay; only the one that is being written is laid out again.
        self._settled = len(self._lines)
        if block.partial:
            self._lines.rows += [self._code_row(line) for line in lines.preview(block.partial, room)]

    def _code_row(self, line: Content) -> Row:
        padded = Content(" ") + line.pad_right(max(0, self._width - 1 - line.cell_length))
        return row_of(padded, self.palette, "block")
