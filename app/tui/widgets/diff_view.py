"""Diffs side by side or unified. Only rows on the screen are ever drawn, however long the diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Literal

from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.content import Content, Span
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from .code_style import language_of, opened_before, spans_of
from .diff_model import DiffFile, parse_diff
from .diff_rows import Row, changed_words, split_rows, unified_rows, widest
from .expandable import styled
from .plain_text import clean_line, one_line
from .strips_widget import CODE_COLOURS, Palette, select_in, strip_of

__all__ = ["DiffView", "Layout"]

Layout = Literal["auto", "unified", "split"]
ROWS_AT_ONCE = 4000
SPLIT_FROM = 120
"""Cells from which "auto" puts old and new side by side."""
CARRIED = 300
"""Lines of a hunk up to which an open string or comment is followed from its start."""
_SIGNS = {"added": "+", "deleted": "−", "renamed": "→", "copied": "⇒", "binary": "▣", "modified": "±"}


class DiffView(ScrollView, can_focus=True):
    """Shows a patch. ``s`` switches the layout, ``n`` and ``p`` go from hunk to hunk."""

    ALLOW_SELECT = True
    BINDINGS: ClassVar[list[BindingType]] = [
        ("s", "switch_layout", "Side by side / unified"),
        ("n", "go(1)", "Next hunk"),
        ("p", "go(-1)", "Previous hunk"),
    ]
    COLOURS: ClassVar[Mapping[str, str]] = {
        **CODE_COLOURS,
        "string": "$text-warning",
        "file": "bold on $panel",
        "hunk": "$text-accent",
        "muted": "$foreground 60%",
        "added": "on $success 20%",
        "removed": "on $error 20%",
        "added-word": "bold on $success 45%",
        "removed-word": "bold on $error 45%",
        "blank": "on $foreground 3%",
        "cursor": "bold on $accent 30%",
        "wanted": "$text-success",
        "refused": "$text-error",
    }
    DEFAULT_CSS = """
    DiffView {
        color: $foreground; background: $background; height: 1fr;
        scrollbar-size: 1 1; scrollbar-color: $foreground 25%; scrollbar-background: $background;
        scrollbar-color-hover: $accent; scrollbar-color-active: $accent;
        scrollbar-background-hover: $background;
    }
    """

    def __init__(
        self,
        patch_text: str = "",
        layout: Layout = "auto",
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.files: list[DiffFile] = []
        self.rows: list[Row] = []
        self.wanted_layout: Layout = layout
        self.rows_drawn = 0
        """Rows rendered so far: the measure of what showing costs."""
        self._split = False
        self._coming: Iterator[Row] = iter(())
        self._digits = 1
        self._widest = 0
        self._strips: LRUCache[tuple[int, int, int], Strip] = LRUCache(2000)
        self._words: LRUCache[tuple[int, int, int, int], tuple[list[tuple[int, int]], ...]] = LRUCache(2000)
        self._inside: dict[tuple[int, int], list[str]] = {}
        self._palette: Palette | None = None
        self._set_files(parse_diff(patch_text))

    def show(self, patch_text: str) -> None:
        """Another patch."""
        self._set_files(parse_diff(patch_text))
        self._lay_out()
        self.scroll_home(animate=False)

    def _set_files(self, files: list[DiffFile]) -> None:
        self.files = files
        self._inside.clear()
        last = [
            hunk.old_start + hunk.old_count + hunk.new_start + hunk.new_count
            for f in files
            for hunk in f.hunks
        ]
        self._digits = len(str(max(last, default=1)))
        self._widest = widest(files)
        self.rows = []

    # ------------------------------------------------------------ layout

    def on_mount(self) -> None:
        super().on_mount()
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def action_switch_layout(self) -> None:
        self.wanted_layout = "unified" if self._split else "split"
        self._lay_out()

    def action_go(self, step: int) -> None:
        """To the title of the next or previous hunk."""
        at = self.scroll_offset.y
        titles = [y for y, row in enumerate(self.rows) if row.kind == "hunk"]
        later = [y for y in titles if y > at] if step > 0 else [y for y in reversed(titles) if y < at]
        if later:
            self.scroll_to(y=later[0], animate=False)

    @property
    def side_by_side(self) -> bool:
        return self._split

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        split = self.wanted_layout == "split" or (self.wanted_layout == "auto" and width >= SPLIT_FROM)
        if split != self._split or not self.rows:
            self._split = split
            self._coming = split_rows(self.files) if split else unified_rows(self.files)
            self.rows = list(islice(self._coming, ROWS_AT_ONCE))
            self.call_later(self._more_rows)
        self.forget_strips()
        self._set_size()

    def _more_rows(self) -> None:
        """The rows of a long diff come a few thousand at a time, so that nothing else has to wait."""
        more = list(islice(self._coming, ROWS_AT_ONCE))
        if more:
            self.rows += more
            self._set_size()
            self.set_timer(0.001, self._more_rows)

    def _set_size(self) -> None:
        width = self.scrollable_content_region.width
        self.virtual_size = Size(width + max(0, self._widest - self._code_width(width)), len(self.rows))

    def _code_width(self, width: int) -> int:
        gutter = self._digits + 3
        return max(4, (width - 1) // 2 - gutter) if self._split else max(4, width - gutter - self._digits - 1)

    def forget_strips(self) -> None:
        self._strips.clear()
        self._palette = None
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._palette = None

    # ------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        x, top = self.scroll_offset
        width = self.scrollable_content_region.width
        return self._strip(top + y, x, width).apply_offsets(0, top + y)

    def _strip(self, y: int, x: int, width: int) -> Strip:
        if self._palette is None:
            self._palette = Palette(self, self.COLOURS)
        if y >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        key = (y, x, width)
        strip = self._strips.get(key)
        if strip is None:
            self.rows_drawn += 1
            strip = self._draw(self.rows[y], x, width, self._palette)
            self._strips[key] = strip
        selection = self.text_selection
        if selection is not None:
            style = self.screen.get_visual_style("screen--selection", partial=True)
            strip = select_in(strip, y, selection, style)
        return strip

    def _draw(self, row: Row, x: int, width: int, palette: Palette) -> Strip:
        file = self.files[row.file]
        if row.kind == "gap":
            return strip_of(Content(" " * width), palette)
        if row.kind == "file":
            return strip_of(
                _fill(self.file_title(row, file), width), palette, self.title_style(row) or "file"
            )
        if row.kind == "hunk":
            return strip_of(_fill(self.hunk_title(row, file), width), palette, self.title_style(row))
        if row.kind == "note":
            return strip_of(_fill(styled("  " + self._note(row, file), "muted"), width), palette)
        if self._split:
            return self._draw_split(row, x, width, palette)
        return self._draw_unified(row, x, width, palette)

    def title_style(self, row: Row) -> str:
        return ""

    def file_title(self, row: Row, file: DiffFile) -> Content:
        added, removed = file.counts()
        name = one_line(file.path)
        if file.kind in ("renamed", "copied"):
            name = f"{one_line(file.old_path)} → {one_line(file.new_path)}"
        more = f"  {file.kind}" if file.kind != "modified" else ""
        more += f"  mode {file.mode_change}" if file.mode_change else ""
        counts = (
            styled(f"  +{added}", "wanted") + styled(f" −{removed}", "refused") if file.hunks else Content("")
        )
        return Content(f" {_SIGNS[file.kind]} {name}") + counts + styled(more, "muted")

    def hunk_title(self, row: Row, file: DiffFile) -> Content:
        hunk = file.hunks[row.hunk]
        place = f"  line {hunk.new_start or hunk.old_start}"
        return styled(place, "hunk") + styled(f"  {one_line(hunk.heading)}", "muted")

    def _note(self, row: Row, file: DiffFile) -> str:
        if row.hunk >= 0:
            return "no newline at the end of the file"
        if file.binary:
            return "binary file"
        return "empty file" if file.kind in ("added", "deleted") else "no line is changed"

    def _draw_unified(self, row: Row, x: int, width: int, palette: Palette) -> Strip:
        at = row.left if row.left >= 0 else row.right
        old = str(row.old) if row.old else ""
        new = str(row.new) if row.new else ""
        kind = self._kind(row, at)
        sign = {"added": "+", "removed": "-"}.get(kind, " ")
        gutter = styled(f"{old:>{self._digits}} {new:>{self._digits}} ", "muted") + Content(f"{sign} ")
        code = self._code(row, at, row.partner, x, max(0, width - gutter.cell_length))
        return strip_of(gutter + code, palette, kind)

    def _draw_split(self, row: Row, x: int, width: int, palette: Palette) -> Strip:
        half = (width - 1) // 2
        partners = (row.right, row.left) if row.left != row.right else (-1, -1)
        sides: list[Strip] = []
        for at, number, partner, room in (
            (row.left, row.old, partners[0], half),
            (row.right, row.new, partners[1], width - 1 - half),
        ):
            if at < 0:
                sides.append(strip_of(Content(" " * room), palette, "blank"))
                continue
            kind = self._kind(row, at)
            sign = {"added": "+", "removed": "-"}.get(kind, " ")
            gutter = styled(f"{number:>{self._digits}} ", "muted") + Content(f"{sign} ")
            code = self._code(row, at, partner, x, max(0, room - gutter.cell_length))
            sides.append(strip_of(gutter + code, palette, kind))
        return Strip.join([sides[0], strip_of(styled("│", "muted"), palette), sides[1]])

    def _kind(self, row: Row, at: int) -> str:
        first = self.files[row.file].hunks[row.hunk].lines[at][0]
        return {"+": "added", "-": "removed"}.get(first, "")

    def _code(self, row: Row, at: int, partner: int, x: int, room: int) -> Content:
        """The text of a line, coloured, its changed words marked, from column ``x`` on."""
        file = self.files[row.file]
        lines = file.hunks[row.hunk].lines
        line = clean_line(lines[at][1:])
        spans: list[Span] = []
        language = language_of(file.path)
        if language is not None:
            found, _ = spans_of(line, language, self._open_at(row.file, row.hunk, at))
            spans = [Span(start, end, style) for start, end, style in found]
        if partner >= 0:
            own = 0 if lines[at][0] == "-" else 1
            style = ("removed-word", "added-word")[own]
            spans += [Span(start, end, style) for start, end in self._changed(row, at, partner, own)]
        content = Content(line, spans)
        if x:
            content = content[x:] if line.isascii() else _from_cell(content, x)
        return _fill(content, room)

    def _changed(self, row: Row, at: int, partner: int, own: int) -> Sequence[tuple[int, int]]:
        left, right = (at, partner) if own == 0 else (partner, at)
        key = (row.file, row.hunk, left, right)
        found = self._words.get(key)
        if found is None:
            lines = self.files[row.file].hunks[row.hunk].lines
            found = changed_words(clean_line(lines[left][1:]), clean_line(lines[right][1:]))
            self._words[key] = found
        return found[own]

    def _open_at(self, file: int, hunk: int, at: int) -> str:
        """The string or comment that is open at the start of a line, in hunks that are not too long."""
        lines = self.files[file].hunks[hunk].lines
        language = language_of(self.files[file].path)
        if language is None or not language.openers or len(lines) > CARRIED:
            return ""
        known = self._inside.get((file, hunk))
        if known is None:
            known = []
            old = new = opened_before([line[1:] for line in lines], language)
            for line in lines:
                known.append(old if line[0] == "-" else new)
                if line[0] in "- ":
                    old = spans_of(line[1:], language, old)[1]
                if line[0] in "+ ":
                    new = spans_of(line[1:], language, new)[1]
            self._inside[(file, hunk)] = known
        return known[at]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y + 1 if selection.end else len(self.rows)
        width = self.scrollable_content_region.width
        texts = [self._strip(y, 0, width).text.rstrip() for y in range(first, min(last, len(self.rows)))]
        moved = Selection(
            selection.start - (0, first) if selection.start else None,
            selection.end - (0, first) if selection.end else None,
        )
        return moved.extract("\n".join(texts)), "\n"


def _fill(content: Content, width: int) -> Content:
    """Exactly ``width`` cells."""
    content = content.truncate(width)
    return content.pad_right(max(0, width - content.cell_length))


def _from_cell(content: Content, cells: int) -> Content:
    if content.cell_length <= cells:
        return Content("")
    parts = content.fold(max(2, cells))
    rest = Content("").join(parts[1:])
    return rest if cells >= 2 else content[1:]
