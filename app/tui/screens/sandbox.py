"""Which sandbox runs use, with which limits, and what runs in it now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from ....sandbox.protocol import SandboxDescription, SandboxLimits
from ..runs import Runs
from ..widgets.sandbox_facts import SandboxFacts
from .dialog import Dialog, plain


class SandboxScreen(Dialog[None]):
    title_text = "Sandbox"
    hint_text = "S stops what runs · Esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "stop", "Stop")]

    def __init__(self, runs: Runs, live: Mapping[str, str]) -> None:
        super().__init__()
        self._runs, self._live = runs, live

    def body(self) -> Iterable[Widget]:
        yield plain("\n".join(self._asked()))
        yield SandboxFacts()

    def on_mount(self) -> None:
        self._show()
        self.set_interval(0.5, self._show)

    def _asked(self) -> Iterable[str]:
        options = self._runs.options
        if options is not None:
            yield f"asked for    {options.sandbox}{f', image {options.image}' if options.image else ''}"
            yield f"network      {'open' if options.network else 'closed'} (asked for)"
            yield f"time         {options.max_time_s / 60:.0f} minutes for each run"
            yield f"model steps  {options.max_steps}"
            yield ""

    def _show(self) -> None:
        """The sandbox of the last run, and the commands that run now."""
        last: Mapping[str, Any] = self._runs.last.get("sandbox") or {}
        described = None
        if last.get("kind"):
            described = SandboxDescription(
                str(last["kind"]),
                bool(last.get("isolated")),
                image=last.get("image"),
                workdir=str(last.get("workdir") or ""),
                warnings=tuple(map(str, last.get("warnings") or ())),
            )
        limits = SandboxLimits() if described is not None and described.isolated else None
        self.query_one(SandboxFacts).show(described, limits, tuple(self._live.values()))

    def action_stop(self) -> None:
        if self._runs.driver.running:
            self._runs.driver.stop()
            self.hint("stopping ...")
        else:
            self.hint("nothing runs")
