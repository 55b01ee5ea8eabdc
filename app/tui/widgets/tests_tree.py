"""Tests before and after, by file: what was repaired, what broke, what stayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from .expandable import spread, styled
from .plain_text import one_line
from .strips_widget import Palette, strip_of

__all__ = ["TestTree", "change_of"]

Change = Literal["repaired", "broken", "failing", "passing", "new", "gone", "other"]

_GOOD = frozenset({"passed", "xfailed"})
_BAD = frozenset({"failed", "error", "timeout", "xpassed", "collection_error"})
_SIGNS: dict[str, tuple[str, str]] = {
    "repaired": ("✓", "good"),
    "broken": ("✗", "bad"),
    "failing": ("✗", "bad"),
    "passing": ("·", "muted"),
    "new": ("+", "good"),
    "gone": ("−", "warn"),
    "other": ("○", "muted"),
}
_ORDER = ("broken", "failing", "repaired", "gone", "new", "other", "passing")
"""Worst first."""


def change_of(before: str | None, after: str | None) -> Change:
    """What became of a test; None: it was not run."""
    if after is None:
        return "gone" if before is not None else "other"
    if after in _BAD:
        return "broken" if before in _GOOD else "failing"
    if after in _GOOD:
        if before in _BAD:
            return "repaired"
        return "new" if before is None else "passing"
    return "other"


class _Test(NamedTuple):
    name: str
    before: str | None
    after: str | None
    change: Change


@dataclass
class _File:
    path: str
    tests: list[_Test] = field(default_factory=list[_Test])
    open: bool = False

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for test in self.tests:
            found[test.change] = found.get(test.change, 0) + 1
        return found


class TestTree(ScrollView, can_focus=True):
    """Outcomes by test id (``path::name``), before and after; thousands cost what the screen shows.

    Files with something to see are open at first. Enter, space or a click opens and closes a file;
    on a test they post ``Chosen``.
    """

    __test__ = False  # it is no test, whatever it is called

    BINDINGS: ClassVar[list[BindingType]] = [
        ("down,j", "move(1)", "Down"),
        ("up,k", "move(-1)", "Up"),
        ("enter,space", "choose", "Open / close"),
        ("o", "open_all", "Open all"),
    ]
    COLOURS: ClassVar[Mapping[str, str]] = {
        "good": "$text-success",
        "bad": "$text-error",
        "warn": "$text-warning",
        "muted": "$foreground 60%",
        "file": "bold",
        "cursor": "on $accent 30%",
    }
    DEFAULT_CSS = """
    TestTree { height: 1fr; color: $foreground; background: $background; overflow-x: hidden;
        scrollbar-size: 1 1; scrollbar-color: $foreground 25%; scrollbar-background: $background;
        scrollbar-color-hover: $accent; scrollbar-color-active: $accent;
        scrollbar-background-hover: $background;
    }
    """

    class Chosen(Message):
        """A test was picked."""

        def __init__(self, tree: TestTree, test_id: str) -> None:
            super().__init__()
            self.tree = tree
            self.test_id = test_id

    def __init__(
        self,
        before: Mapping[str, str] | None = None,
        after: Mapping[str, str] | None = None,
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._files: list[_File] = []
        self._rows: list[tuple[_File, _Test | None]] = []
        self._cursor = 0
        self._palette: Palette | None = None
        self.lines_drawn = 0
        self._take(before or {}, after or {})

    def show(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Other runs: outcome by test id, as ``TestCase.outcome`` has it."""
        self._take(before, after)
        self._lay_out()
        self.scroll_home(animate=False)

    def counts(self) -> dict[str, int]:
        """How many of each change."""
        found: dict[str, int] = {}
        for file in self._files:
            for change, count in file.counts().items():
                found[change] = found.get(change, 0) + count
        return {change: found[change] for change in _ORDER if change in found}

    def _take(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        files: dict[str, _File] = {}
        for test_id in dict.fromkeys([*before, *after]):
            path, _, name = test_id.partition("::")
            old, new = before.get(test_id), after.get(test_id)
            if not after:
                # Only one run is known: it is told as it is.
                old, new = None, old
            file = files.setdefault(path, _File(path))
            file.tests.append(_Test(name or path, old, new, change_of(old, new)))
        rank = {change: number for number, change in enumerate(_ORDER)}
        for file in files.values():
            file.tests.sort(key=lambda test: rank[test.change])
            file.open = file.tests[0].change not in ("passing", "other", "new")
        self._files = sorted(files.values(), key=lambda file: rank[file.tests[0].change])
        self._cursor = 0
        self._make_rows()

    def _make_rows(self) -> None:
        self._rows = []
        for file in self._files:
            self._rows.append((file, None))
            if file.open:
                self._rows += [(file, test) for test in file.tests]

    # ------------------------------------------------------------ keys and mouse

    def on_mount(self) -> None:
        super().on_mount()
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self.virtual_size = Size(0, len(self._rows))
        self.refresh()

    def action_move(self, step: int) -> None:
        self._cursor = max(0, min(len(self._rows) - 1, self._cursor + step))
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= self._cursor < top + height:
            self.scroll_to(y=self._cursor - (0 if step < 0 else height - 1), animate=False)
        self.refresh()

    def action_choose(self) -> None:
        if self._cursor >= len(self._rows):
            return
        file, test = self._rows[self._cursor]
        if test is not None:
            self.post_message(
                self.Chosen(self, file.path if test.name == file.path else f"{file.path}::{test.name}")
            )
            return
        file.open = not file.open
        self._make_rows()
        self._lay_out()

    def action_open_all(self) -> None:
        opened = not all(file.open for file in self._files)
        for file in self._files:
            file.open = opened
        self._cursor = 0
        self._make_rows()
        self._lay_out()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < len(self._rows):
            self._cursor = offset.y + self.scroll_offset.y
            self.action_choose()
            self.refresh()

    # ------------------------------------------------------------ drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    def render_line(self, y: int) -> Strip:
        y, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if y >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        self.lines_drawn += 1
        if self._palette is None:
            self._palette = Palette(self, self.COLOURS)
        file, test = self._rows[y]
        content = self._file_row(file, width) if test is None else _test_row(test, width)
        content = content.pad_right(max(0, width - content.cell_length))
        strip = strip_of(content, self._palette, "cursor" if y == self._cursor and self.has_focus else "")
        return strip.apply_offsets(0, y)

    def _file_row(self, file: _File, width: int) -> Content:
        left = styled("▾ " if file.open else "▸ ", "muted") + styled(one_line(file.path), "file")
        return spread(left, _counted(file.counts()), width)


def _counted(counts: Mapping[str, int]) -> Content:
    parts = [styled(f"{counts[change]} {change}", _SIGNS[change][1]) for change in _ORDER if change in counts]
    return Content("  ").join(parts)


def _test_row(test: _Test, width: int) -> Content:
    sign, style = _SIGNS[test.change]
    left = Content("   ") + styled(sign, style) + Content(f" {one_line(test.name)}")
    outcomes = [outcome for outcome in (test.before, test.after) if outcome is not None]
    said = " → ".join(dict.fromkeys(outcomes))
    if test.change == "gone":
        said = f"{test.before} → not run"
    return spread(left, styled(said, style), width)


def outcomes(cases: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Outcome by id of cases as the ``run_tests`` tool and result files give them."""
    return {str(case["id"]): str(case["outcome"]) for case in cases}
