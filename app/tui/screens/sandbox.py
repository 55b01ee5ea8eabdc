"""Which sandbox runs use, with which limits, what runs in it now, and what it said last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from ....sandbox.protocol import SandboxDescription, SandboxLimits
from ..conversation import Conversation
from ..runs import Runs
from ..widgets.sandbox_panel import RunningProcess, SandboxPanel
from .dialog import Dialog


class SandboxScreen(Dialog[None]):
    title_text = "Sandbox"
    hint_text = "S stops what runs · Esc closes"
    wide = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "stop", "Stop")]

    def __init__(self, runs: Runs, conversation: Conversation) -> None:
        super().__init__()
        self._runs, self._conversation = runs, conversation
        self._panel = SandboxPanel()
        self._told = 0

    def body(self) -> Iterable[Widget]:
        yield Static("\n".join(self._asked()), markup=False, id="sandbox-asked")
        yield self._panel

    def on_mount(self) -> None:
        super().on_mount()
        self._show()
        self.set_interval(0.5, self._show)

    def _show(self) -> None:
        found: Mapping[str, Any] = self._runs.last.get("sandbox") or {}
        described = None
        if found:
            described = SandboxDescription(
                kind=str(found.get("kind")), isolated=bool(found.get("isolated")), image=found.get("image"),
                image_digest=found.get("image_digest"), workdir=str(found.get("workdir") or ""),
                warnings=tuple(str(each) for each in found.get("warnings") or ()),
            )  # fmt: skip
        # Runs ask for no other limits; without isolation nothing holds most of them.
        limits = SandboxLimits() if described is not None and described.isolated else None
        running = [RunningProcess("", words, took) for words, took in self._conversation.executing()]
        self._panel.show(described, limits, running)
        new, self._told = self._conversation.outputs_since(self._told)
        for text in new:
            self._panel.log_output(text)

    def _asked(self) -> Iterable[str]:
        options = self._runs.options
        if options is None:
            return
        yield f"asked for    {options.sandbox}{f', image {options.image}' if options.image else ''}"
        yield f"network      {'open' if options.network else 'closed'} (asked for)"
        yield f"time         {options.max_time_s / 60:.0f} minutes for each run"
        yield f"model steps  {options.max_steps}"
        yield ""

    def on_sandbox_panel_stop(self, event: SandboxPanel.Stop) -> None:
        event.stop()
        self.action_stop()

    def action_stop(self) -> None:
        if self._runs.driver.running:
            self._runs.driver.stop()
            self.hint("stopping ...")
        else:
            self.hint("nothing runs")
