"""The review before anything reaches the person's files: file by file, hunk by hunk."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from ..widgets.diff_review import DiffReview
from .dialog import Head, Push


class ReviewScreen(ModalScreen[str]):
    """Gives the patch that is to be applied, or nothing."""

    def __init__(self, patch: str) -> None:
        super().__init__()
        self._patch = patch

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Head("Review the changes")
            yield DiffReview(self._patch, id="review")
            with Horizontal(classes="pushes"):
                yield Push("[Enter] apply what is taken", "enter")
                yield Push("[A] take all", "a")
                yield Push("[R] take none", "r")
            yield Static(_HINT, markup=False, classes="dialog-hint")

    def on_mount(self) -> None:
        self.query_one(DiffReview).focus()

    def on_diff_review_changed(self, event: DiffReview.Changed) -> None:
        event.stop()
        self.query_one(".dialog-hint", Static).update(f"{event.taken} of {event.total} taken · {_HINT}")

    def on_diff_review_decided(self, event: DiffReview.Decided) -> None:
        event.stop()
        self.dismiss(event.patch or "")


_HINT = (
    "↑ ↓ move · Space takes or leaves · A all · R none · Enter applies what is taken · Esc applies nothing"
)
