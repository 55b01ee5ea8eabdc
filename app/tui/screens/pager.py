"""One text file, from its end; a large one is read in part and says so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual.widget import Widget

from ...fix.doors import visible
from .dialog import Dialog, plain

_SHOWN_BYTES = 1 << 20


class PagerScreen(Dialog[None]):
    wide = True
    hint_text = "↑ ↓ PgUp PgDn Home End · Esc closes"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_mount(self) -> None:
        super().on_mount()
        body = self.query_one(".dialog-body")
        body.focus()
        body.scroll_end(animate=False)

    def body(self) -> Iterable[Widget]:
        yield plain(visible(str(self._path)), "head")
        yield plain(_end_of(self._path))


def _end_of(path: Path) -> str:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(max(0, size - _SHOWN_BYTES))
            data = stream.read(_SHOWN_BYTES)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    lines = data.decode("utf-8", "replace").splitlines()
    shown = "\n".join(visible(line) for line in lines)
    cut = size - len(data)
    return f"[the first {cut:,} bytes are not shown]\n{shown}" if cut > 0 else shown or "(empty)"
