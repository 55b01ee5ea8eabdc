"""The settings: every key with its value and where it comes from; one is changed in the user's own file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from ....sandbox.base.errors import WhimbrelError
from ....sandbox.base.secrets import redact
from ...config import Settings, load_settings
from ...config.editing import set_value, unset_value
from ..keys import MAIN
from .dialog import Dialog, plain
from .listing import Listing, Row


@dataclass(frozen=True)
class Setting:
    name: str
    value: Any
    about: str
    origin: str


class SettingsScreen(Listing[None, Setting]):
    title_text = "Settings"
    hint_text = "Enter changes · Ctrl-X takes your value out · Esc closes"
    search_text = "search settings and keys"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+x", "unset", "Default", priority=True)]

    def __init__(self, path: Path, repository: Path) -> None:
        super().__init__()
        self._path, self._repository = path, repository
        self._settings: list[Setting] = []

    def on_mount(self) -> None:
        self._load()
        super().on_mount()

    def _load(self) -> None:
        try:
            loaded = load_settings(self._repository)
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        self._settings = list(_settings(loaded.settings, loaded.origins))

    def rows(self, wanted: str) -> Iterable[Row[Setting]]:
        for each in self._settings:
            if wanted.casefold() in f"{each.name} {each.about}".casefold():
                value = redact("" if each.value is None else str(each.value))
                yield Row(f"{each.name:<28} {value:<28.60}", each, f"{each.about}  ({each.origin})")

    def chosen(self, row: Row[Setting]) -> None:
        def changed(text: str | None) -> None:
            if text is not None:
                self._change(row.value.name, text)

        self.app.push_screen(ValueDialog(row.value), changed)

    def action_unset(self) -> None:
        row = self.marked
        if row is None:
            return
        try:
            was = unset_value(self._path, row.value.name)
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        self._again(f"{row.value.name} is the default again" if was else "your file does not set it")

    def _change(self, name: str, text: str) -> None:
        try:
            set_value(self._path, name, text)
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        self._again(f"{name} is kept in {self._path}")

    def _again(self, hint: str) -> None:
        row = self.marked
        self._load()
        names = [each.name for each in self._settings]
        wanted = self.query_one("#search", Input).value.strip()
        keep = (
            names.index(row.value.name) if row is not None and not wanted and row.value.name in names else 0
        )
        self.fill(self.rows(wanted), keep)
        self.hint(hint)


class ValueDialog(Dialog[str]):
    """A new value for one setting."""

    title_text = "Change a setting"
    hint_text = "Enter keeps it · Esc leaves it"

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._setting = setting

    def body(self) -> Iterable[Widget]:
        yield plain(self._setting.name, "head")
        yield plain(self._setting.about, "dim")

    def foot(self) -> Iterable[Widget]:
        value = self._setting.value
        shown = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        yield Input(shown)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


def _settings(settings: Settings, origins: Mapping[str, str]) -> Iterable[Setting]:
    yield from _below(settings, (), origins)
    for key in MAIN:
        name = f"tui.keys.{key.id}"
        yield Setting(name, settings.tui.keys.get(key.id, key.keys), key.label, origins.get(name, "default"))


def _below(section: BaseModel, path: tuple[str, ...], origins: Mapping[str, str]) -> Iterable[Setting]:
    for name, field in type(section).model_fields.items():
        value: Any = getattr(section, name)
        key = (*path, name)
        if isinstance(value, BaseModel):
            yield from _below(value, key, origins)
        elif not isinstance(value, dict | list):
            dotted = ".".join(key)
            yield Setting(dotted, value, field.description or "", origins.get(dotted, "default"))
