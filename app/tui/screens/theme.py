"""Colours, seen while choosing; Enter keeps them for later, too."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widgets import OptionList

from ....sandbox.base.errors import WhimbrelError
from ...config.editing import set_value
from ...paths import config_dir
from ..themes import NAMES
from .listing import Listing, Row


class ThemeScreen(Listing[None, str]):
    title_text = "Theme"
    hint_text = "Enter keeps it · Esc goes back to the old one"
    wide = False

    def on_mount(self) -> None:
        self._before = self.app.theme
        super().on_mount()
        if self._before in NAMES:
            self.query_one(OptionList).highlighted = NAMES.index(self._before)

    def rows(self, wanted: str) -> Iterable[Row[str]]:
        return [Row(name, name) for name in NAMES if wanted in name]

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        row = self.marked
        if row is not None:
            self.app.theme = row.value

    def chosen(self, row: Row[str]) -> None:
        self.app.theme = row.value
        try:
            set_value(config_dir() / "config.toml", "tui.theme", row.value)
        except WhimbrelError as error:
            self.app.notify(f"not kept: {error.one_line()}", severity="warning", markup=False)
        self.dismiss(None)

    def action_close(self) -> None:
        self.app.theme = self._before
        self.dismiss(None)
