"""The logs of the last run, and tracebacks of the interface itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...paths import state_dir
from ..widgets.plain_text import counted
from .listing import Listing, Row
from .pager import PagerScreen


class LogsScreen(Listing[None, Path]):
    title_text = "Logs"
    hint_text = "Enter shows one · Esc closes"
    empty_text = "no run has left logs yet"

    def __init__(self, output: Path) -> None:
        super().__init__()
        self._output = output
        self._files = list(_files(output))

    def rows(self, wanted: str) -> Iterable[Row[Path]]:
        for path in self._files:
            if wanted in str(path):
                size = path.stat().st_size if path.exists() else 0
                inside = path.is_relative_to(self._output)
                name = str(path.relative_to(self._output)) if inside else f"{path.parent.name}/{path.name}"
                yield Row(name, path, counted(size, "byte"))

    def chosen(self, row: Row[Path]) -> None:
        self.app.push_screen(PagerScreen(row.value))


def _files(output: Path) -> Iterable[Path]:
    if output != Path() and output.is_dir():
        yield from sorted(path for path in output.rglob("*") if path.is_file() and path.name != ".gitignore")
    crashes = state_dir() / "crashes"
    if crashes.is_dir():
        yield from sorted(crashes.glob("*.txt"), reverse=True)[:20]
