"""A widget that is a list of finished lines: as tall as they are, selectable, drawn only where seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.segment import Segment
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

__all__ = ["Palette", "StripsWidget", "select_in", "strip_of"]


class Palette:
    """Styles by name, out of a widget's component classes."""

    def __init__(self, widget: Widget, prefix: str) -> None:
        self.base = widget.visual_style
        self._widget = widget
        self._prefix = prefix
        self._known: dict[str, Style] = {}

    def __call__(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return name
        style = self._known.get(name)
        if style is None:
            style = self._widget.get_visual_style(self._prefix + name, partial=True)
            self._known[name] = style
        return style


def strip_of(content: Content, palette: Palette, background: str = "") -> Strip:
    """One line of content as a strip; ``background``: a style under the whole of it."""
    base = palette.base + palette(background) if background else palette.base
    segments = [
        Segment(text, style.rich_style) for text, style in content.render(base, end="", parse_style=palette)
    ]
    return Strip(segments, content.cell_length)


def select_in(strip: Strip, y: int, selection: Selection, style: Style) -> Strip:
    """The strip with what a selection covers of line ``y`` marked."""
    span = selection.get_span(y)
    if span is None:
        return strip
    text = strip.text
    start, end = span[0], len(text) if span[1] < 0 else span[1]
    if start >= end:
        return strip
    cuts = [strip.index_to_cell_position(min(index, len(text))) for index in (start, end)]
    width = strip.cell_length
    marked = strip.crop(cuts[0], cuts[1])
    rich = style.rich_style
    marked = Strip(
        [Segment(part, (old + rich) if old else rich) for part, old, _ in marked], marked.cell_length
    )
    return Strip.join([strip.crop(0, cuts[0]), marked, strip.crop(cuts[1], width)])


class StripsWidget(Widget):
    """Shows what ``strips_for`` gives for a width. Give the class ``height: auto``."""

    ALLOW_SELECT = True
    COLOURS = ""
    """Prefix of the component classes that ``palette`` looks styles up under."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._palette: Palette | None = None
        self.lines_drawn = 0
        """Lines rendered so far: the measure of what redrawing costs."""

    @property
    def palette(self) -> Palette:
        if self._palette is None:
            self._palette = Palette(self, self.COLOURS)
        return self._palette

    def strips_for(self, width: int) -> Sequence[Strip]:
        """Every line at this width. Called often: keep what was made."""
        raise NotImplementedError

    def forget_strips(self) -> None:
        """The look has changed: what was made is no longer valid."""

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None
        self.forget_strips()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.strips_for(width)) if width > 0 else 0

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        strips = self.strips_for(width) if width > 0 else ()
        base = self.rich_style
        if y >= len(strips):
            return Strip.blank(width, base)
        self.lines_drawn += 1
        strip = strips[y]
        selection = self.text_selection
        if selection is not None:
            strip = select_in(
                strip, y, selection, self.screen.get_visual_style("screen--selection", partial=True)
            )
        return strip.crop_extend(0, width, base).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        text = "\n".join(strip.text.rstrip() for strip in self.strips_for(self.size.width))
        return selection.extract(text), "\n"


def cached_lines(contents: Iterable[Content], palette: Palette) -> list[Strip]:
    """All of them as strips."""
    return [strip_of(content, palette) for content in contents]


StripCache = LRUCache[tuple[int, int], Strip]
