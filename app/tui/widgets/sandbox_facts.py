"""Where commands run: what keeps them apart, their limits, and what runs now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.content import Content
from textual.strip import Strip

from ....sandbox.protocol import SandboxDescription, SandboxLimits
from .expandable import spread, styled
from .plain_text import one_line
from .strips_widget import StripsWidget, strip_of

__all__ = ["SandboxFacts"]

_KINDS = {
    "docker": "Docker container",
    "bwrap": "bubblewrap",
    "host": "this machine",
    "outer": "outer sandbox",
}


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
        self.processes: Sequence[str] = ()
        self._made: tuple[int, list[Strip]] | None = None

    def show(
        self,
        description: SandboxDescription | None,
        limits: SandboxLimits | None = None,
        processes: Sequence[str] = (),
    ) -> None:
        """How it is now.

        Args:
            processes: one line about each command that runs inside.
        """
        if (description, limits, processes) == (self.description, self.limits, self.processes):
            return
        self.description, self.limits, self.processes = description, limits, processes
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
        if described is None:
            return [styled("No sandbox was made yet.", "muted")]
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
        count = len(self.processes)
        lines.append(
            styled(f"{count} running" if count else "nothing is running", "title" if count else "muted")
        )
        lines += [Content(f"  {one_line(process)}") for process in self.processes]
        return [part for line in lines for part in (line.wrap(width) or [line])]


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
