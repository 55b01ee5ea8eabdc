"""Where commands run: what keeps them apart, their limits, what runs now, and what it said last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.strip import Strip

from ....sandbox.protocol import SandboxDescription, SandboxLimits
from .expandable import seconds, spread, styled
from .log_view import LogView
from .plain_text import one_line
from .strips_widget import StripsWidget, strip_of

__all__ = ["RunningProcess", "SandboxPanel", "size_of"]

_KINDS = {
    "docker": "Docker container",
    "bwrap": "bubblewrap",
    "host": "this machine",
    "outer": "outer sandbox",
}


@dataclass(frozen=True)
class RunningProcess:
    """A command that runs inside."""

    handle: str
    command: str
    running_s: float = 0.0


class SandboxFacts(StripsWidget):
    """Kind, limits, warnings and processes, one below the other."""

    COLOURS: ClassVar[Mapping[str, str]] = {
        "title": "bold",
        "muted": "$foreground 60%",
        "good": "$text-success",
        "bad": "$text-error bold",
        "warn": "$text-warning",
    }
    DEFAULT_CSS = "SandboxFacts { height: auto; width: 1fr; color: $foreground; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.description: SandboxDescription | None = None
        self.limits: SandboxLimits | None = None
        self.processes: Sequence[RunningProcess] = ()
        self._made: tuple[int, list[Strip]] | None = None

    def changed(self) -> None:
        self._made = None
        if self.is_mounted:
            self.refresh(layout=True)

    def forget_strips(self) -> None:
        self._made = None

    def strips_for(self, width: int) -> Sequence[Strip]:
        if self._made is None or self._made[0] != width:
            self._made = (width, [strip_of(line, self.palette) for line in self._lines(width)])
        return self._made[1]

    def _lines(self, width: int) -> list[Content]:
        described = self.description
        if described is None and not self.processes:
            return [styled("No sandbox is running.", "muted")]
        lines = self._described(described, width) if described is not None else []
        count = len(self.processes)
        lines.append(
            styled(f"{count} running" if count else "nothing is running", "title" if count else "muted")
        )
        for process in self.processes:
            command = Content("  " + one_line(f"{process.handle}  {process.command}".strip()))
            lines.append(spread(command, styled(seconds(process.running_s), "muted"), width))
        return [part for line in lines for part in (line.wrap(width) or [line])]

    def _described(self, described: SandboxDescription, width: int) -> list[Content]:
        kind = one_line(_KINDS.get(described.kind, described.kind))
        apart = styled("isolated", "good") if described.isolated else styled("NOT isolated", "bad")
        lines = [spread(styled(kind, "title"), apart, width)]
        for name, value in (
            ("image", described.image),
            ("digest", described.image_digest),
            ("at", described.workdir),
        ):
            if value:
                lines.append(styled(f"{name:<8}", "muted") + Content(one_line(value)))
        if self.limits is not None:
            lines.append(styled("limits  ", "muted") + Content(limits_line(self.limits)))
        lines += [styled(f"! {one_line(warning)}", "warn") for warning in described.warnings]
        lines.append(Content(""))
        return lines


class SandboxPanel(Vertical):
    """Facts above, log below. ``x`` asks to stop what runs: whoever owns the sandbox listens to ``Stop``."""

    BINDINGS: ClassVar[list[BindingType]] = [("x", "stop", "Stop what runs")]
    DEFAULT_CSS = """
    SandboxPanel { height: 1fr; width: 1fr;
        & > LogView { height: 1fr; border-top: solid $panel; }
    }
    """

    class Stop(Message):
        """The person wants what runs inside to end."""

        def __init__(self, panel: SandboxPanel) -> None:
            super().__init__()
            self.panel = panel

        @property
        def control(self) -> SandboxPanel:
            return self.panel

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._facts = SandboxFacts()
        self.log_view = LogView()

    def compose(self) -> ComposeResult:
        yield self._facts
        yield self.log_view

    def show(
        self,
        description: SandboxDescription | None,
        limits: SandboxLimits | None = None,
        processes: Sequence[RunningProcess] = (),
    ) -> None:
        """How it is now."""
        self._facts.description, self._facts.limits, self._facts.processes = description, limits, processes
        self._facts.changed()

    def log_output(self, text: str | bytes) -> None:
        """More output of what runs."""
        self.log_view.append(text)

    def action_stop(self) -> None:
        self.post_message(self.Stop(self))


def limits_line(limits: SandboxLimits) -> str:
    """All limits on one line."""
    return (
        f"{size_of(limits.memory_bytes)} memory, {limits.cpus:g} cpus, {limits.pids} processes,"
        f" {size_of(limits.disk_bytes)} disk, {size_of(limits.file_bytes)} a file"
    )


def size_of(count: int) -> str:
    """``4 GiB`` for 4,294,967,296 bytes."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.3g} {unit}"
