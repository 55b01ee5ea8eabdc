"""A log of any size: read from its file where it is looked at, never as a whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Mapping
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType
from textual.cache import LRUCache
from textual.content import Content, Span
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from .ansi_style import ansi_content
from .log_file import LogFile
from .strips_widget import Palette, select_in, strip_of

__all__ = ["LogView"]

PAGE = 64
MOST_SELECTED = 20_000
"""Lines that one selection copies."""


class LogView(ScrollView, can_focus=True):
    """Shows a file, or what ``append`` and ``consume`` bring. ``n`` and ``N`` repeat a search.

    Stays at the end while it grows, unless the person has scrolled away from it.
    """

    ALLOW_SELECT = True
    RATE = 10
    BINDINGS: ClassVar[list[BindingType]] = [
        ("n", "again(1)", "Next match"),
        ("N", "again(-1)", "Previous match"),
        ("g", "scroll_home", "Top"),
        ("G", "scroll_end", "End"),
    ]
    COLOURS: ClassVar[Mapping[str, str]] = {"match": "reverse", "number": "$foreground 38%"}
    DEFAULT_CSS = """
    LogView { height: 1fr; color: $foreground; background: $background;
        scrollbar-size: 1 1; scrollbar-color: $foreground 25%; scrollbar-background: $background;
        scrollbar-color-hover: $accent; scrollbar-color-active: $accent;
        scrollbar-background-hover: $background;
    }
    """

    class Indexed(Message):
        """More of the log is known: lines and bytes."""

        def __init__(self, view: LogView, lines: int, size: int) -> None:
            super().__init__()
            self.view = view
            self.lines = lines
            self.size = size

    def __init__(
        self,
        path: Path | None = None,
        *,
        follow: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """
        Args:
            path: the file; None: what is appended.
            follow: look twice a second whether the file has grown.

        Raises:
            OSError: the file cannot be read.
        """
        super().__init__(id=id, classes=classes)
        self._log = LogFile(path)
        self._follow = follow
        self._sticks = follow or path is None
        """It begins at its end."""
        self._pages: LRUCache[int, list[bytes]] = LRUCache(64)
        self._strips: LRUCache[tuple[int, int, int], Strip] = LRUCache(1000)
        self._palette: Palette | None = None
        self._widest = 0
        self._needle = ""
        self._at = -1
        self._waiting: Timer | None = None
        self._indexing: asyncio.Task[None] | None = None
        self.lines_drawn = 0

    @property
    def line_count(self) -> int:
        return self._log.lines

    @property
    def memory(self) -> int:
        """Bytes held for the log: its index and what was read last."""
        pages = [self._pages[page] for page in list(self._pages.keys())]
        return self._log.index_size + sum(len(line) for page in pages for line in page)

    # ------------------------------------------------------------ what comes in

    def append(self, data: str | bytes) -> None:
        """More text; shown at the next tick. Raises OSError when it cannot be kept."""
        self._log.append(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
        if self._waiting is None and self.is_mounted:
            self._waiting = self.set_timer(1 / self.RATE, self._index)

    async def consume(self, lines: AsyncIterable[str | bytes]) -> None:
        """Everything an asynchronous source gives."""
        async for line in lines:
            self.append(line)

    def on_mount(self) -> None:
        super().on_mount()
        self._index()
        if self._follow:
            self.set_interval(0.5, self._look)

    def on_unmount(self) -> None:
        if self._indexing is not None:
            self._indexing.cancel()
        self._log.close()

    def _look(self) -> None:
        if self._log.size != self._log.indexed_bytes:
            self._index()

    def _index(self) -> None:
        self._waiting = None
        if self._indexing is None or self._indexing.done():
            self._indexing = asyncio.create_task(self._index_all())

    async def _index_all(self) -> None:
        told = time.monotonic()
        while await asyncio.to_thread(self._log.index_more):
            if time.monotonic() - told > 1 / self.RATE:
                self._grown()
                told = time.monotonic()
        self._grown()

    def _grown(self) -> None:
        """More lines are known."""
        lines = self._log.lines
        if lines == self.virtual_size.height and lines:
            self._forget_page((lines - 1) // PAGE)
            self.refresh()
            return
        height = self.virtual_size.height
        at_end = (
            self.scroll_offset.y >= height - self.scrollable_content_region.height if height else self._sticks
        )
        self._forget_page(max(0, self.virtual_size.height - 1) // PAGE)
        self.virtual_size = Size(self._widest, lines)
        if at_end and not self.is_vertical_scrollbar_grabbed:
            self.scroll_to(y=max(0, lines - self.scrollable_content_region.height), animate=False, force=True)
        self.refresh()
        self.post_message(self.Indexed(self, lines, self._log.indexed_bytes))

    def _forget_page(self, page: int) -> None:
        self._pages.discard(page)
        for key in [key for key in list(self._strips.keys()) if key[0] // PAGE == page]:
            self._strips.discard(key)

    # ------------------------------------------------------------ search

    async def search(self, needle: str, step: int = 1) -> bool:
        """Marks the words and goes to the next line that holds them, from the top of the screen."""
        if needle != self._needle:
            self._needle, self._at = needle, -1
            self._strips.clear()
            self.refresh()
        if not needle:
            return False
        start = self._at if self._at >= 0 else self.scroll_offset.y - (1 if step > 0 else 0)
        wanted = needle.encode("utf-8", "surrogateescape")
        found = await asyncio.to_thread(self._log.find, wanted, start, step)
        if found is None:
            return False
        self._at = found
        self.scroll_to(y=max(0, found - self.scrollable_content_region.height // 3), animate=False)
        return True

    async def action_again(self, step: int) -> None:
        if self._needle and not await self.search(self._needle, step):
            self.app.bell()

    @property
    def found_line(self) -> int | None:
        """The line (0-based) the last search led to."""
        return self._at if self._at >= 0 else None

    # ------------------------------------------------------------ drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None
        self._strips.clear()

    def line(self, y: int) -> Content:
        """Line ``y`` as it is shown."""
        page, index = divmod(y, PAGE)
        lines = self._pages.get(page)
        if lines is None:
            lines = self._log.read(page * PAGE, PAGE)
            self._pages[page] = lines
        if index >= len(lines):
            return Content("")
        content = ansi_content(lines[index].decode("utf-8", "replace"))
        if self._needle:
            plain, wanted = content.plain.lower(), self._needle.lower()
            at = plain.find(wanted)
            spans: list[Span] = []
            while at >= 0 and len(spans) < 200:
                spans.append(Span(at, at + len(wanted), "match"))
                at = plain.find(wanted, at + len(wanted))
            content = content.add_spans(spans)
        return content

    def render_line(self, y: int) -> Strip:
        x, top = self.scroll_offset
        y, width = top + y, self.scrollable_content_region.width
        if y >= self.virtual_size.height:
            return Strip.blank(width, self.rich_style)
        strip = self._strips.get((y, x, width))
        if strip is None:
            self.lines_drawn += 1
            if self._palette is None:
                self._palette = Palette(self, self.COLOURS)
            whole = strip_of(self.line(y), self._palette)
            if whole.cell_length > self._widest:
                self._widest = whole.cell_length
                self.call_later(self._widen)
            strip = whole.crop_extend(x, x + width, self.rich_style)
            self._strips[(y, x, width)] = strip
        selection = self.text_selection
        if selection is not None:
            style = self.screen.get_visual_style("screen--selection", partial=True)
            strip = select_in(strip, y, selection, style)
        return strip.apply_offsets(x, y)

    def _widen(self) -> None:
        if self._widest != self.virtual_size.width:
            self.virtual_size = Size(self._widest, self.virtual_size.height)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = min(selection.end.y + 1 if selection.end else self.line_count, first + MOST_SELECTED)
        texts = [self.line(y).plain for y in range(first, last)]
        moved = Selection(
            selection.start - (0, first) if selection.start else None,
            selection.end - (0, first) if selection.end and selection.end.y < last else None,
        )
        return moved.extract("\n".join(texts)), "\n"
