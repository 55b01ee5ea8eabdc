"""A long history in a small window: what is far from the screen is kept as data and made again on the way.

Widgets are mounted as in any container. Those that can be made anew (``renew``) leave when many
are there and they are far from what is seen; a shelf of the same height stands in their place, so
nothing moves, and they come back before the person gets there. The end is followed as long as
nobody scrolled away from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

__all__ = ["ConversationView", "Entry", "Renewable", "Shelf", "Shelved", "words_of"]


@runtime_checkable
class Renewable(Protocol):
    """A widget that can leave the screen and be made again."""

    def renew(self) -> Callable[[], Widget] | None:
        """What makes an equal widget; None while this one is still growing."""
        ...


@dataclass
class Shelved:
    """One widget as data."""

    make: Callable[[], Widget]
    text: str = ""
    """What find looks through."""
    turn: bool = False
    """A person's message: jumps stop here."""
    height: int = 2
    """Lines it takes: as measured, or a guess."""


class Shelf(Widget):
    """Stands for widgets that are not there, as tall as they were."""

    DEFAULT_CSS = "Shelf { height: auto; width: 1fr; margin: 0; }"

    def __init__(self, items: Sequence[Shelved]) -> None:
        super().__init__()
        self.items = list(items)

    @property
    def lines(self) -> int:
        return sum(item.height for item in self.items)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.lines

    def render_line(self, y: int) -> Strip:
        return Strip.blank(self.size.width, self.rich_style)

    def on_resize(self) -> None:
        # It has its place now, so whether it is near the screen is known.
        if isinstance(self.parent, ConversationView):
            self.parent.settle_soon()


@dataclass
class Entry:
    """One thing of the conversation, mounted or not."""

    text: str
    turn: bool
    widget: Widget | None
    shelf: Shelf | None = None
    index: int = 0


class ConversationView(VerticalScroll):
    """``mount`` adds at the end; ``find`` and ``jump_turn`` reach everything, also what is not mounted."""

    MOST = 120
    """Widgets that may be there before the far ones leave."""
    NEAR = 60
    """Lines above and below the screen that are always there; twice as far, widgets may leave."""

    def on_mount(self) -> None:
        self.anchor()

    _settling = False
    _moves = 0
    """Jumps so far: what holds a place steady gives way to them."""
    _found = -1

    # ------------------------------------------------------------ what is there

    def entries(self) -> list[Entry]:
        """Everything in order."""
        return list(self._entries())

    def _entries(self) -> Iterator[Entry]:
        for child in self.children:
            if isinstance(child, Shelf):
                for index, item in enumerate(child.items):
                    yield Entry(item.text, item.turn, None, child, index)
            else:
                yield Entry(words_of(child), is_turn(child), child)

    def put_shelved(self, items: Sequence[Shelved]) -> None:
        """Earlier things, above all others, without making their widgets yet."""
        if items:
            self.mount(Shelf(items), before=0 if self.children else None)
            self.settle_soon()

    async def find(self, needle: str, step: int = -1) -> bool:
        """To the next place that holds the words, upwards (-1) or downwards, and round; in any case."""
        entries, wanted = self.entries(), needle.casefold()
        if not wanted or not entries:
            return False
        start = self._found if 0 <= self._found < len(entries) else (len(entries) if step < 0 else -1)
        for distance in range(1, len(entries) + 1):
            index = (start + step * distance) % len(entries)
            if wanted in entries[index].text.casefold():
                self._found = index
                await self.reveal(entries[index])
                return True
        return False

    async def jump_turn(self, step: int) -> bool:
        """To the person's message before (-1) or after (1) what is at the top of the screen."""
        tops = [(top, entry) for top, entry in self._tops() if entry.turn]
        now = round(self.scroll_y)
        if step < 0:
            chosen = next((entry for top, entry in reversed(tops) if top < now), None)
        else:
            chosen = next((entry for top, entry in tops if top > now and top <= self.max_scroll_y), None)
        if chosen is None:
            if step > 0:
                self.anchor()
            return False
        await self.reveal(chosen)
        return True

    async def reveal(self, entry: Entry) -> Widget | None:
        """Brings an entry to the top of the screen; returns its widget."""
        widget = entry.widget
        if widget is None and entry.shelf is not None:
            made = await self._open(entry.shelf, entry.index - 5, entry.index + 15)
            widget = made.get(entry.index)
        if widget is not None:
            self.release_anchor()
            self._moves += 1
            self.call_after_refresh(self._to_top, widget, self._moves)
        return widget

    def _to_top(self, widget: Widget, move: int, tries: int = 5) -> None:
        if move != self._moves or not widget.is_attached:
            return
        if not widget.virtual_region.height and tries:
            # It has no place yet.
            self.call_after_refresh(self._to_top, widget, move, tries - 1)
            return
        self.scroll_to_widget(widget, top=True, animate=False, immediate=True)
        self._moves += 1  # what was to be held before the jump is no longer

    def _tops(self) -> Iterator[tuple[int, Entry]]:
        for child in self.children:
            top = child.virtual_region.y
            if isinstance(child, Shelf):
                for index, item in enumerate(child.items):
                    yield top, Entry(item.text, item.turn, None, child, index)
                    top += item.height
            else:
                yield top, Entry(words_of(child), is_turn(child), child)

    # ------------------------------------------------------------ the window

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.settle_soon()

    def settle_soon(self) -> None:
        """Looks after the next refresh whether widgets must come or may leave."""
        if not self._settling and self.is_mounted:
            self._settling = True
            self.call_after_refresh(self._settle)

    async def _settle(self) -> None:
        try:
            opened = False
            top, bottom = round(self.scroll_y), round(self.scroll_y) + self.size.height
            for shelf in self.query_children(Shelf):
                region = shelf.virtual_region
                first, last = max(region.y, top - self.NEAR), min(region.bottom, bottom + self.NEAR)
                if first < last:
                    await self._open_lines(shelf, first - region.y, last - region.y)
                    opened = True
            # What was just made has no place yet, so what is far cannot be told before the next refresh.
            if not opened and len(self.children) > self.MOST:
                await self._shelve(top - 2 * self.NEAR, bottom + 2 * self.NEAR)
        finally:
            self._settling = False
        if opened:
            self.settle_soon()

    async def _open_lines(self, shelf: Shelf, first: int, last: int) -> None:
        start = end = at = 0
        for index, item in enumerate(shelf.items):
            if at + item.height <= first:
                start = index + 1
            if at < last:
                end = index + 1
            at += item.height
        await self._open(shelf, start, end)

    async def _open(self, shelf: Shelf, start: int, end: int) -> dict[int, Widget]:
        """Makes the widgets of some items; the others stay on shelves above and below."""
        start, end = max(0, start), min(len(shelf.items), end)
        if start >= end:
            return {}
        made = {index: shelf.items[index].make() for index in range(start, end)}
        below = shelf.items[end:]
        hold = self._hold()
        with self.app.batch_update():
            after = [*made.values(), *([Shelf(below)] if below else [])]
            await self.mount_all(after, after=shelf)
            del shelf.items[start:]
            if shelf.items:
                shelf.refresh(layout=True)
            else:
                await shelf.remove()
        self.call_after_refresh(hold)
        return made

    async def _shelve(self, top: int, bottom: int) -> None:
        """Takes away what lies wholly above ``top`` or below ``bottom``."""
        children = list(self.children)
        tops = [child.virtual_region.y for child in children] + [self.virtual_size.height]
        runs: list[list[int]] = []
        run: list[int] = []
        for index, child in enumerate(children):
            far = tops[index + 1] < top or tops[index] > bottom
            height = tops[index + 1] - tops[index]
            placed = child.virtual_region.height > 0 and height > 0
            leaves = placed and (isinstance(child, Shelf) or _renewing(child) is not None)
            if far and leaves and not child.has_focus:
                run.append(index)
            elif run:
                runs.append(run)
                run = []
        if run:
            runs.append(run)
        hold = self._hold()
        with self.app.batch_update():
            for run in runs:
                if len(run) < 2:
                    continue
                items: list[Shelved] = []
                for index in run:
                    child = children[index]
                    if isinstance(child, Shelf):
                        items += child.items
                    elif (make := _renewing(child)) is not None:
                        height = tops[index + 1] - tops[index]
                        items.append(Shelved(make, words_of(child), is_turn(child), height))
                await self.mount(Shelf(items), before=children[run[0]])
                await self.remove_children([children[index] for index in run])
        self.call_after_refresh(hold)

    def _hold(self) -> Callable[[], None]:
        """What puts the first visible widget back where it is now on the screen."""
        if self.is_anchored and not self._anchor_released:
            return lambda: None
        scroll = round(self.scroll_y)
        held = next(
            (
                child
                for child in self.children
                if not isinstance(child, Shelf) and child.virtual_region.bottom > scroll
            ),
            None,
        )
        if held is None:
            return lambda: None
        before, moves = held.virtual_region.y - scroll, self._moves

        def back() -> None:
            if held.is_attached and moves == self._moves:
                wanted = held.virtual_region.y - before
                if wanted != round(self.scroll_y):
                    self.scroll_to(y=wanted, animate=False, immediate=True)

        return back


def words_of(widget: Widget) -> str:
    """The words a widget shows."""
    for name in ("source", "text", "said", "content"):
        value = getattr(widget, name, None)
        if value is not None and not callable(value):
            return str(value)
    return ""


def is_turn(widget: Widget) -> bool:
    """Whether it is a person's message."""
    return bool(getattr(widget, "turn", False)) or hasattr(widget, "said")


def _renewing(widget: Widget) -> Callable[[], Widget] | None:
    return widget.renew() if isinstance(widget, Renewable) else None
