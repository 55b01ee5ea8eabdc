"""Which sandbox runs use, with which limits, and what runs in it now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from ..runs import Runs
from .dialog import Dialog


class SandboxScreen(Dialog[None]):
    title_text = "Sandbox"
    hint_text = "S stops what runs · Esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "stop", "Stop")]

    def __init__(self, runs: Runs, live: Mapping[str, str]) -> None:
        super().__init__()
        self._runs, self._live = runs, live

    def body(self) -> Iterable[Widget]:
        yield Static("", markup=False, id="sandbox-state")

    def on_mount(self) -> None:
        self._show()
        self.set_interval(0.5, self._show)

    def _show(self) -> None:
        self.query_one("#sandbox-state", Static).update("\n".join(self._lines()))

    def _lines(self) -> Iterable[str]:
        options = self._runs.options
        sandbox: Mapping[str, Any] = self._runs.last.get("sandbox") or {}
        if options is not None:
            yield f"asked for    {options.sandbox}{f', image {options.image}' if options.image else ''}"
            yield f"network      {'open' if options.network else 'closed'} (asked for)"
            yield f"time         {options.max_time_s / 60:.0f} minutes for each run"
            yield f"model steps  {options.max_steps}"
        if sandbox:
            isolated = "isolated" if sandbox.get("isolated") else "NOT isolated"
            yield f"last run     {sandbox.get('kind')}, {isolated}"
            if sandbox.get("image"):
                yield f"image        {sandbox['image']}"
            yield f"folder       {sandbox.get('workdir')}"
            for warning in sandbox.get("warnings") or ():
                yield f"  ! {warning}"
        yield ""
        yield "running now" if self._live else "nothing runs now"
        for line in self._live.values():
            yield f"  {line}"

    def action_stop(self) -> None:
        if self._runs.driver.running:
            self._runs.driver.stop()
            self.hint("stopping ...")
        else:
            self.hint("nothing runs")
