"""The tests of the last run, before and after, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ..widgets.tests_tree import TestTree
from .dialog import Head, plain


class TestsScreen(ModalScreen[None]):
    """What the evidence of a result says about each test."""

    __test__ = False  # it is no test, whatever it is called
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__()
        self._before, self._after = outcomes_of(result)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Head("Tests before and after")
            yield TestTree(self._before, self._after)
            yield plain("↑ ↓ move · Enter opens and closes · O opens all · Esc closes", "dialog-hint")

    def on_mount(self) -> None:
        self.query_one(TestTree).focus()

    def action_close(self) -> None:
        self.dismiss(None)


def outcomes_of(result: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Outcome by test before and after, of the executions a result itself points to.

    A conversation points to none: there the first and the last run of tests count.
    """
    rows = [row for row in result.get("evidence") or () if row.get("outcomes") and row.get("fresh_process")]
    before = _merged(rows, (result.get("tests_before") or {}).get("ledger_rows"))
    after = _merged(rows, (result.get("tests_after") or {}).get("ledger_rows"))
    if not before and rows:
        before = dict(rows[0]["outcomes"])
    if not after and len(rows) > 1:
        after = dict(rows[-1]["outcomes"])
    return before, after


def _merged(rows: Iterable[Mapping[str, Any]], numbers: Any) -> dict[str, str]:
    merged: dict[str, str] = {}
    for row in rows:
        if row.get("number") in (numbers or ()):
            merged |= row["outcomes"]
    return merged
