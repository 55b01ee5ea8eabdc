"""A widget that is a list of finished lines: as tall as they are, selectable, drawn only where seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, overload

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

__all__ = ["CODE_COLOURS", "Lines", "Palette", "Row", "StripsWidget", "row_of", "select_in", "strip_of"]


CODE_COLOURS: Mapping[str, str] = {
    "keyword": "$text-accent",
    "string": "$text-success",
    "comment": "$foreground 60% italic",
    "number": "$text-secondary",
    "name": "$text-primary",
}
"""What ``code_style`` tells apart."""
_ON_16_COLOURS = {"$foreground 60%": "dim", "$foreground 38%": "dim", "$text-secondary": "ansi_cyan"}
_PART = re.compile(r"\$[\w-]+(?: \d+%)?")
_parsed: dict[tuple[str, str], Style] = {}


class Palette:
    """Styles by the names of a widget's ``COLOURS``.

    Component classes would do the same, at the price of a node of the style sheet for each class
    of each widget that is ever mounted.
    """

    def __init__(self, widget: Widget, colours: Mapping[str, str]) -> None:
        self.base = widget.visual_style
        self._colours = colours
        self._theme = widget.app.theme
        self._variables = widget.app.theme_variables
        self._rich: dict[tuple[str | Style, ...], RichStyle] = {}
        self._ansi = widget.app.native_ansi_color or self._theme.startswith("ansi")

    def __call__(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return name
        spec = self._colours.get(name, "")
        key = (self._theme, spec)
        style = _parsed.get(key)
        if style is None:
            style = (
                Style.parse(on_16_colours(spec) if self._ansi else spec, self._variables) if spec else Style()
            )
            _parsed[key] = style
        return style

    def rich(self, names: tuple[str | Style, ...]) -> RichStyle:
        """Several styles, one on the other, as the terminal gets them; each combination exists once."""
        style = self._rich.get(names)
        if style is None:
            style = self._rich[names] = sum(map(self, names), self.base).rich_style
        return style


def on_16_colours(spec: str) -> str:
    """A style for terminals with few colours: no tinted backgrounds, on which text could vanish."""
    colours, _, background = spec.partition("on ")
    more = " ".join(word for word in background.split() if word in ("bold", "italic", "underline", "reverse"))
    colours = _PART.sub(lambda match: _ON_16_COLOURS.get(match.group(), match.group()), colours)
    if not colours.strip() and (match := _PART.search(background)):
        # The background was the message: its colour moves to the text.
        variable = match.group().split(" ")[0]
        colours = "" if variable in ("$foreground", "$panel") else variable
    return f"{colours} {more}".strip()


Row = tuple[tuple[Segment, ...], int]
"""Segments of a line and its cells: what a strip is made of when it is drawn."""


def row_of(content: Content, palette: Palette, background: str = "") -> Row:
    """One line of content, styled; ``background``: a style under the whole of it."""
    text, spans = content.plain, content.spans
    under: tuple[str | Style, ...] = (background,) if background else ()
    if not spans:
        return ((Segment(text, palette.rich(under)),), content.cell_length)
    bounds = sorted({0, len(text), *(edge for span in spans for edge in span[:2] if 0 <= edge <= len(text))})
    segments = tuple(
        Segment(
            text[start:end],
            palette.rich(
                (*under, *(span.style for span in spans if span.start <= start and span.end >= end))
            ),
        )
        for start, end in pairwise(bounds)
    )
    return segments, content.cell_length


def strip_of(content: Content, palette: Palette, background: str = "") -> Strip:
    """The same as a strip, for lines that are not kept in great numbers."""
    segments, cells = row_of(content, palette, background)
    return Strip(segments, cells)


class Lines(Sequence[Strip]):
    """Many lines. A strip carries half a dozen caches, so strips are made only where they are drawn."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: list[Row] = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Strip: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Strip]: ...
    def __getitem__(self, index: int | slice) -> Strip | Sequence[Strip]:
        if isinstance(index, slice):
            return Lines(self.rows[index])
        segments, cells = self.rows[index]
        return Strip(segments, cells)


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
    COLOURS: ClassVar[Mapping[str, str]] = {}
    """Names of styles in lines, and what they are."""

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
