"""Model and thinking tier, with what the endpoint can do as it was probed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from ....engine.remote.profile import FACTS, Profile
from ....sandbox.base.errors import WhimbrelError
from ...agent.profiles import profile_store
from ...config import load_settings
from .dialog import Dialog, plain
from .listing import Listing, Row

EFFORTS = ("auto", "low", "high", "max")


@dataclass(frozen=True)
class ChosenModel:
    model: str
    effort: str


class ModelScreen(Listing[ChosenModel | None, str]):
    """Known models; a model string or a server's address may be typed, too."""

    title_text = "Model"
    search_text = "a model such as vllm:NAME@http://127.0.0.1:8000/v1, or a server's address and Ctrl-L"
    hint_text = "Enter uses it · Ctrl-E effort · Ctrl-P probes · Ctrl-L lists a server's models · Esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+e", "effort", "Effort", priority=True),
        Binding("ctrl+p", "probe", "Probe", priority=True),
        Binding("ctrl+l", "list", "List", priority=True),
    ]

    def __init__(self, model: str, effort: str) -> None:
        super().__init__()
        self._now, self._effort = model, effort
        self._known = known_models(model)

    def on_mount(self) -> None:
        super().on_mount()
        self._title()

    def _title(self) -> None:
        self.query_one(".dialog-title", Static).update(f"Model · effort {self._effort}")

    def rows(self, wanted: str) -> Iterable[Row[str]]:
        if wanted and ":" in wanted and wanted not in self._known:
            yield Row(wanted, wanted, "as typed")
        for name, about in self._known.items():
            if wanted.casefold() in name.casefold():
                yield Row(name, name, "now" if name == self._now else about)

    def chosen(self, row: Row[str]) -> None:
        from ....engine.models import load_model

        try:
            model = load_model(row.value)
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        self.run_worker(model.close())
        self.dismiss(ChosenModel(row.value, self._effort))

    def action_effort(self) -> None:
        self._effort = EFFORTS[(EFFORTS.index(self._effort) + 1) % len(EFFORTS)]
        self._title()

    @work(exclusive=True)
    async def action_probe(self) -> None:
        """Asks the endpoint what it can do; an answer of this week is shown at once."""
        from ...commands.model import probe_endpoint

        row = self.marked
        if row is None or row.value.partition(":")[0] in ("embedded", "llama"):
            self.hint("a local model needs no probe")
            return
        self.hint(f"asking {row.value} ...")
        try:
            profile, cached = await probe_endpoint(
                row.value, lambda text: self.hint(f"asking about {text} ...")
            )
        except (WhimbrelError, OSError) as error:
            self.hint(error.one_line() if isinstance(error, WhimbrelError) else str(error))
            return
        self.hint(self.hint_text)
        self.app.push_screen(ProfileScreen(profile, cached))

    @work(exclusive=True)
    async def action_list(self) -> None:
        """The models of the server that was typed or marked."""
        from ...commands.model import list_endpoint

        typed = self.query_one("#search", Input).value.strip()
        address = typed or (self.marked.value if self.marked else "")
        self.hint(f"asking {address} ...")
        try:
            found = await list_endpoint(address)
        except (WhimbrelError, OSError) as error:
            self.hint(error.one_line() if isinstance(error, WhimbrelError) else str(error))
            return
        kind, _, rest = address.partition(":")
        url = rest.rpartition("@")[2] if "@" in rest else (address if "://" in address else "")
        prefix = "openai" if kind in ("http", "https") else kind
        for each in found:
            name = f"{prefix}:{each.name}" + (f"@{url}" if url else "")
            window = f"window {each.window}" if each.window else "window unknown"
            self._known[name] = f"offered by the server, {window}"
        self.query_one("#search", Input).value = ""
        self.fill(self.rows(""))
        self.hint(f"{len(found)} models · Enter uses the marked one")


class ProfileScreen(Dialog[None]):
    """What a probe found out."""

    title_text = "What this endpoint can do"

    def __init__(self, profile: Profile, cached: bool) -> None:
        super().__init__()
        self._profile, self._cached = profile, cached

    def body(self) -> Iterable[Any]:
        profile = self._profile
        kept = " (asked within the last week)" if self._cached else ""
        yield plain(f"{profile.model} at {profile.base_url}{kept}", "head")
        lines: list[str] = []
        for name, label in FACTS.items():
            fact = profile.facts.get(name)
            if fact is not None:
                lines.append(f"{label:<28} {_value(fact.value):<20} {fact.how}")
        yield plain("\n".join(lines))


def known_models(now: str) -> dict[str, str]:
    """Names with a word about each: in use, of the settings and profiles, probed before, embedded."""
    known: dict[str, str] = {now: "now"}
    known.setdefault("embedded", "repairs without a network, a GPU or a large model")
    try:
        settings = load_settings(None).settings
    except WhimbrelError:
        return known
    known.setdefault(settings.model.name, "of the settings")
    for name, profile in settings.profiles.items():
        model = profile.get("model") or {}
        if isinstance(model, dict) and isinstance(model.get("name"), str):
            known.setdefault(model["name"], f"profile {name}")
    for model in settings.prices:
        if ":" in model:
            known.setdefault(model, "has a price in the settings")
    for profile in profile_store().listed():
        known.setdefault(f"{profile.dialect}:{profile.model}@{profile.base_url}", "probed before")
    return known


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value) or "none"
