"""Looking through a patch before it is applied: every file and hunk is taken or refused."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from .diff_model import Choice, DiffFile
from .diff_rows import Row
from .diff_view import DiffView, Layout
from .expandable import styled

__all__ = ["DiffReview"]


class DiffReview(DiffView):
    """A diff with a cursor on its files and hunks. Space or a click takes or refuses, enter decides.

    Posts ``Decided`` with the patch that is left, and nothing else: applying is not its business.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("space", "flip", "Take / refuse"),
        ("j,n,down", "move(1)", "Next"),
        ("k,p,up", "move(-1)", "Previous"),
        ("a", "all(True)", "Take all"),
        ("r", "all(False)", "Refuse all"),
        ("enter", "decide", "Apply what is taken"),
        ("escape", "cancel", "Apply nothing"),
    ]

    class Decided(Message):
        """``patch``: for ``git apply``; empty when everything was refused, None when it was cancelled."""

        def __init__(self, review: DiffReview, patch: str | None) -> None:
            super().__init__()
            self.review = review
            self.patch = patch

        @property
        def control(self) -> DiffReview:
            return self.review

    class Changed(Message):
        """Something was taken or refused; ``taken`` of ``total`` are taken now."""

        def __init__(self, review: DiffReview, taken: int, total: int) -> None:
            super().__init__()
            self.review = review
            self.taken = taken
            self.total = total

    def __init__(
        self,
        patch_text: str = "",
        layout: Layout = "auto",
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(patch_text, layout, id=id, classes=classes)
        self._at = (0, Choice.HEAD)
        """The unit under the cursor; HEAD: the file's own row."""

    def _set_files(self, files: list[DiffFile]) -> None:
        super()._set_files(files)
        self.choice = Choice(files)
        self._at = (0, Choice.HEAD)

    @property
    def accepted_patch(self) -> str:
        return self.choice.patch()

    # ------------------------------------------------------------ keys and mouse

    def action_move(self, step: int) -> None:
        stops = [(f, u) for f, file in enumerate(self.files) for u in (Choice.HEAD, *range(len(file.hunks)))]
        if not stops:
            return
        at = stops.index(self._at) if self._at in stops else 0
        self._at = stops[max(0, min(len(stops) - 1, at + step))]
        self.forget_strips()
        y = self._row_of(self._at)
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= y < top + height - 2:
            self.scroll_to(y=max(0, y - 2), animate=False)

    def action_flip(self) -> None:
        self._flip(*self._at)

    def action_all(self, wanted: bool) -> None:
        for index in range(len(self.files)):
            self.choice.want_file(index, wanted)
        self._told()

    def action_decide(self) -> None:
        self.post_message(self.Decided(self, self.choice.patch()))

    def action_cancel(self) -> None:
        self.post_message(self.Decided(self, None))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        y = offset.y + self.scroll_offset.y
        if y < len(self.rows) and self.rows[y].kind in ("file", "hunk"):
            row = self.rows[y]
            self._at = (row.file, row.hunk)
            self._flip(row.file, row.hunk)

    def _flip(self, file: int, hunk: int) -> None:
        if file >= len(self.files):
            return
        if hunk < 0 or self.files[file].whole:
            taken, total = self.choice.share(file)
            self.choice.want_file(file, taken < total)
        else:
            self.choice.want(file, hunk, not self.choice.wanted(file, hunk))
        self._told()

    def _told(self) -> None:
        self.forget_strips()
        shares = [self.choice.share(index) for index in range(len(self.files))]
        taken, total = sum(share[0] for share in shares), sum(share[1] for share in shares)
        self.post_message(self.Changed(self, taken, total))

    def _row_of(self, unit: tuple[int, int]) -> int:
        kind = "file" if unit[1] < 0 else "hunk"
        return next(
            (y for y, row in enumerate(self.rows) if row.kind == kind and (row.file, row.hunk) == unit), 0
        )

    # ------------------------------------------------------------ titles

    def title_style(self, row: Row) -> str:
        return "cursor" if (row.file, row.hunk) == self._at else ""

    def file_title(self, row: Row, file: DiffFile) -> Content:
        taken, total = self.choice.share(row.file)
        return Content(" ") + _box(taken, total) + super().file_title(row, file)

    def hunk_title(self, row: Row, file: DiffFile) -> Content:
        taken = self.choice.wanted(row.file, row.hunk)
        word = "" if taken else styled("  refused", "refused")
        return Content("   ") + _box(int(taken), 1) + super().hunk_title(row, file) + word


def _box(taken: int, total: int) -> Content:
    if taken == total:
        return styled("[✓]", "wanted")
    return styled("[ ]", "refused") if taken == 0 else styled("[~]", "hunk")
